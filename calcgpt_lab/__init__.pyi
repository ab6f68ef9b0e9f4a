from calcgpt_lab.data.problems import read_problems as read_problems
from calcgpt_lab.data.task import Task as Task
from calcgpt_lab.evaluation.evaluate import evaluate as evaluate
from calcgpt_lab.model.gpt import build_model as build_model
from calcgpt_lab.model.stored import load as load
from calcgpt_lab.recipe import load_recipe as load_recipe
from calcgpt_lab.training.train import train as train
