"""Privacy by noise: schedules of steps and noise, sensitivities, budgets, conditions of theorems.

Loaded when the workflow is parsed: modules import nothing heavy at their top.
"""
