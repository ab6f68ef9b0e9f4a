"""Scores of a trained model: accuracy, calibration, first wrong steps, reports."""
