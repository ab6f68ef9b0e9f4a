from calcgpt.checkpoint import Checkpoint as Checkpoint
from calcgpt.config import ModelConfig as ModelConfig
from calcgpt.inference.calculator import Calculator as Calculator
from datagen.arithmetic import Problem as Problem
from datagen.distributions import generate as generate

__version__: str
