from calcgpt.checkpoint import Checkpoint as Checkpoint
from calcgpt.config import ModelConfig as ModelConfig
from calcgpt.inference.calculator import Calculator as Calculator
from calcgpt.inference.generate import Sampling as Sampling
from calcgpt.inference.generate import sample as sample
from datagen.arithmetic import Problem as Problem
from datagen.distributions import generate as generate

__version__: str
