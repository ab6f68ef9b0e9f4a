"""What a shell completes of the laboratory: recipes, suites and spaces by name."""

from calcgpt.cli.completion import names_or_files

complete_recipe = names_or_files("calcgpt_lab.recipe:recipe_names")
complete_suite = names_or_files("calcgpt_lab.studies.suite:suite_names")
complete_space = names_or_files("calcgpt_lab.studies.space:SPACES")
