"""Synthetic time series with a clinical benchmark's columns, for trials without its data.

Nothing here is fitted to patients, and nothing about patients can be read from it. The columns are
those of `fedatlas.data.formats.clinical`; what fills them is this model, per sample:

- Four hidden paths, one per system of organs, say how ill it is. Each is sqrt(0.3) times a path
  that all four share plus sqrt(0.7) times one of its own, and every such path is a level, plus a
  trend that rises from 0 at the first step to its whole at the last, plus a stationary
  autoregression of order 1. A path has mean 0, and variance 1 at the last step.
- The score is the weighted mean of the four paths over the last quarter of the steps, divided by
  its deviation. A label is +1 with probability sigmoid(signal · score + intercept), the intercept
  being that which makes the mean probability of calibration samples the declared share.
- A channel's hidden value is its loading times its system's path plus a deviation of the sample and
  noise of the step, of variance 1 in all at the last step. Numbers are the channel's normal value
  plus the hidden value times a typical deviation, and are not clipped to what a body allows.
  Categories are the hidden value cut at quantiles of the normal distribution; where the benchmark
  has two vocabularies, of two systems of records, each sample uses one.
- A channel is measured in a step with a probability that is the higher the more ill its system is,
  independently of the rest; gaps are filled as the benchmark does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedatlas.arithmetic.randomness import named_stream
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files
from fedatlas.data.formats.clinical import CHANNELS, COLUMNS, SeriesDataset, encoded, listed
from fedatlas.schema.models import Model

# Shares of variance of a path, at the last step, and of the shared path in a system's.
LEVEL, TREND, AUTOREGRESSION = 0.36, 0.36, 0.28
CORRELATION_OF_STEPS = 0.9
SHARED = 0.3
# Circulation, respiration, consciousness, metabolism.
SYSTEM_WEIGHTS = np.array([0.3, 0.25, 0.3, 0.15])
# The logit of measuring rises by this per unit of a path.
ATTENTION = 0.15
# Share of the hidden values that are in the healthiest category, and of those not in the worst.
HEALTHY, NOT_WORST = 0.55, 0.97

CALIBRATION_SAMPLES = 1 << 14
BLOCK_SAMPLES = 1 << 10


class SyntheticSeries(Model):
    """The numbers of the model that the module describes.

    positive: the expected share of labels +1. signal: how much the log odds of that label rise per
        deviation of the score.
    seed: of the model and of all splits.
    """

    seed: int = Field(ge=0)
    positive: float = Field(gt=0, lt=1)
    signal: float = Field(gt=0)


class SyntheticSeriesDataset(SeriesDataset):
    """synthetic_series: the numbers of the model."""

    files_of_split: ClassVar[Files] = "no files"
    makes_labels: ClassVar[bool] = True

    format: Literal["synthetic_series"]
    synthetic_series: SyntheticSeries

    def read(self, split: str, raw: list[Path]) -> Samples:
        rows = self.splits[split].rows or 0
        return make_series(self.synthetic_series, self.shape[0], split, rows)


@dataclass(frozen=True)
class _Reading:
    """The dependence of a channel on the paths.

    system: the position in `SYSTEM_WEIGHTS`. loading: on that path, of -1 to 1; positive if values
    rise with illness. persistent: the share of the rest's variance that stays with a sample.
    hourly: probability of a measurement in a step where the path is 0.
    deviation: of numbers.
    """

    system: int
    loading: float
    persistent: float
    hourly: float
    deviation: float = 1.0


READINGS = {
    "Capillary refill rate": _Reading(0, 0.5, 0.5, 0.05),
    "Diastolic blood pressure": _Reading(0, -0.35, 0.5, 0.9, 14.0),
    "Fraction inspired oxygen": _Reading(1, 0.5, 0.5, 0.15, 0.05),
    "Glascow coma scale eye opening": _Reading(2, 0.55, 0.5, 0.3),
    "Glascow coma scale motor response": _Reading(2, 0.55, 0.5, 0.3),
    "Glascow coma scale total": _Reading(2, 0.6, 0.5, 0.2),
    "Glascow coma scale verbal response": _Reading(2, 0.5, 0.5, 0.3),
    "Glucose": _Reading(3, 0.5, 0.5, 0.25, 35.0),
    "Heart Rate": _Reading(0, 0.45, 0.6, 0.95, 16.0),
    "Height": _Reading(3, 0.0, 1.0, 0.01, 10.0),
    "Mean blood pressure": _Reading(0, -0.4, 0.5, 0.9, 13.0),
    "Oxygen saturation": _Reading(1, -0.45, 0.4, 0.95, 2.0),
    "Respiratory rate": _Reading(1, 0.45, 0.5, 0.95, 5.0),
    "Systolic blood pressure": _Reading(0, -0.4, 0.5, 0.9, 20.0),
    "Temperature": _Reading(3, 0.4, 0.5, 0.3, 0.7),
    "Weight": _Reading(3, 0.0, 0.99, 0.05, 20.0),
    "pH": _Reading(1, -0.5, 0.4, 0.15, 0.06),
}
#: The categories of a channel, from the healthiest to the worst, of each system of records.
VOCABULARIES = {
    "Capillary refill rate": (listed("0.0|1.0"),),
    "Glascow coma scale eye opening": (
        listed("4 Spontaneously|3 To speech|2 To pain|1 No Response"),
        listed("Spontaneously|To Speech|To Pain|None"),
    ),
    "Glascow coma scale motor response": (
        listed(
            "6 Obeys Commands|5 Localizes Pain|4 Flex-withdraws|3 Abnorm flexion|"
            "2 Abnorm extensn|1 No Response"
        ),
        listed(
            "Obeys Commands|Localizes Pain|Flex-withdraws|Abnormal Flexion|"
            "Abnormal extension|No response"
        ),
    ),
    "Glascow coma scale total": (listed("15|14|13|12|11|10|9|8|7|6|5|4|3"),),
    "Glascow coma scale verbal response": (
        listed("5 Oriented|4 Confused|3 Inapprop words|2 Incomp sounds|1 No Response|1.0 ET/Trach"),
        listed(
            "Oriented|Confused|Inappropriate Words|Incomprehensible sounds|No Response|"
            "No Response-ETT"
        ),
    ),
}


def make_series(made: SyntheticSeries, steps: int, split: str, rows: int) -> Samples:
    """Draw one split, (n, T · 76) float32 with T = steps and n = rows, in the channels' own units.

    The same arguments give the same samples; splits of one seed share the model and no samples.
    """
    from scipy import special

    # No split is called so: names in the catalogue are not empty.
    intercept = _intercept(made, steps, named_stream(made.seed, ""))
    random = named_stream(made.seed, split)
    features = np.empty((rows, steps * COLUMNS), np.float32)
    label = np.empty(rows)
    # In blocks: as float64 and before encoding a whole split would take many times its own memory.
    for start in range(0, rows, BLOCK_SAMPLES):
        block = slice(start, min(start + BLOCK_SAMPLES, rows))
        paths = _paths(block.stop - block.start, steps, random)
        chance = special.expit(made.signal * _score(paths) + intercept)
        label[block] = np.where(random.random(len(chance)) < chance, 1.0, -1.0)
        features[block] = encoded(_measurements(paths, random))
    return Samples.numbered(label, features)


def _intercept(made: SyntheticSeries, steps: int, random: np.random.Generator) -> float:
    """The intercept at which the mean probability of +1 is the declared share."""
    from scipy import optimize, special

    score = made.signal * _score(_paths(CALIBRATION_SAMPLES, steps, random))

    def excess(intercept: float) -> float:
        return float(special.expit(score + intercept).mean() - made.positive)

    # At either end every probability is below, or above, the share.
    centre = special.logit(made.positive)
    return float(optimize.brentq(excess, centre - score.max(), centre - score.min()))


def _paths(samples: int, steps: int, random: np.random.Generator) -> np.ndarray:
    """(n, T, 4): how ill each system is."""
    systems = len(SYSTEM_WEIGHTS)
    level, trend = random.standard_normal((2, samples, 1, 1 + systems))
    time = np.linspace(0, 1, steps)[:, np.newaxis]
    drift = np.sqrt(LEVEL) * level + np.sqrt(TREND) * trend * time
    noise = np.sqrt(AUTOREGRESSION) * random.standard_normal((samples, steps, 1 + systems))
    for step in range(1, steps):
        noise[:, step] *= np.sqrt(1 - CORRELATION_OF_STEPS**2)
        noise[:, step] += CORRELATION_OF_STEPS * noise[:, step - 1]
    paths = drift + noise
    return np.sqrt(SHARED) * paths[:, :, :1] + np.sqrt(1 - SHARED) * paths[:, :, 1:]


def _score(paths: np.ndarray) -> np.ndarray:
    """(n,): the weighted mean of the paths over the last quarter of the steps, of deviation 1."""
    steps = paths.shape[1]
    last = np.arange(steps - max(1, steps // 4), steps)
    time = np.linspace(0, 1, steps)[last].mean()
    lag = np.abs(last[:, np.newaxis] - last)
    of_path = LEVEL + TREND * time**2 + AUTOREGRESSION * (CORRELATION_OF_STEPS**lag).mean()
    of_systems = SHARED + (1 - SHARED) * (SYSTEM_WEIGHTS**2).sum()
    return paths[:, last].mean(axis=1) @ SYSTEM_WEIGHTS / np.sqrt(of_path * of_systems)


def _measurements(paths: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(n, T, 17), of categories their position; NaN where nothing is measured."""
    from scipy import special, stats

    samples, steps, _ = paths.shape
    # One system of records per sample, for all of its channels.
    record = random.integers(0, 2, (samples, 1))
    values = np.empty((samples, steps, len(CHANNELS)))
    for number, channel in enumerate(CHANNELS):
        reading = READINGS[channel.name]
        path = paths[:, :, reading.system]
        rest = np.sqrt(reading.persistent) * random.standard_normal((samples, 1))
        rest = rest + np.sqrt(1 - reading.persistent) * random.standard_normal((samples, steps))
        hidden = reading.loading * path + np.sqrt(1 - reading.loading**2) * rest
        if channel.categories:
            positions = np.array(
                [
                    [channel.categories.index(name) for name in names]
                    for names in VOCABULARIES[channel.name]
                ]
            )
            shares = np.linspace(HEALTHY, NOT_WORST, positions.shape[1] - 1)
            severity = np.searchsorted(stats.norm.ppf(shares), hidden)
            values[:, :, number] = positions[record % len(positions), severity]
        else:
            values[:, :, number] = channel.normal_value + reading.deviation * hidden
        chance = special.expit(special.logit(reading.hourly) + ATTENTION * path)
        values[random.random((samples, steps)) >= chance, number] = np.nan
    return values
