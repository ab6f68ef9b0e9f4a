from calcgpt.checkpoint import Checkpoint as Checkpoint
from calcgpt.config import ModelConfig as ModelConfig
from calcgpt.data.problems import read_problems as read_problems
from calcgpt.data.task import Task as Task
from calcgpt.evaluation.evaluate import evaluate as evaluate
from calcgpt.inference.calculator import Calculator as Calculator
from calcgpt.inference.generate import Sampling as Sampling
from calcgpt.inference.generate import sample as sample
from calcgpt.model.gpt import build_model as build_model
from calcgpt.recipe import load_recipe as load_recipe
from calcgpt.registry import load as load
from calcgpt.training.train import train as train
from datagen.arithmetic import Problem as Problem
from datagen.distributions import generate as generate

__version__: str
