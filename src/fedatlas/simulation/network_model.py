"""What an experiment declares of the simulated machines and links."""

from pydantic import Field

from fedatlas.models import Model


class NetworkModel(Model):
    """Speeds of parties and links; all choices of ours, as no paper states its own.

    seconds_per_feature: of one pass of one sample's features over a processor.
    latency: seconds from sender to receiver, of any message.
    straggler: how many times slower the last party computes; 1 is as fast as the others.
    mask_scale: masks of Algorithm 1 are uniform on [−mask_scale, mask_scale].
    """

    seconds_per_feature: float = Field(default=1e-6, ge=0)
    latency: float = Field(default=1e-6, ge=0)
    straggler: float = Field(default=1.0, ge=1)
    mask_scale: float = Field(default=1.0, ge=0)
