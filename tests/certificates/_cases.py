"""What is compared of each method: the hyper-parameters of its certificate's cases.

Clients have unequally many samples; some take part, or all; every option occurs. The site tells
of costs and draws curves by the same cases. docs/conform.md says what a certificate is.
"""

from typing import Any

#: How far from a loop a method may be, of an iterate's norm.
WITHIN = 1e-12
CLIENTS = 7

ALL, SOME = {"clients_per_round": CLIENTS}, {"clients_per_round": 3, "batch_size": 2}
WORK = {"local_steps": 4, "local_step_size": 0.1}
EPOCHS = {"local_unit": "epochs", "step_factors": {5: 0.5, 12: 0.8}} | SOME | WORK
#: What methods of local work have in common.
LOCAL: list[dict[str, Any]] = [
    ALL | WORK | {"global_step_size": 0.7},
    SOME | WORK | {"effective_step": 0.3},
    EPOCHS | {"local_steps": 2, "global_step_size": 0.8},
]
#: Of methods that take answers as they arrive, on a network with slow and lost ones.
FLIGHT = {"concurrency": 4, "batch_size": 2} | WORK
NETWORK = {
    "seconds_per_gradient": 0.01, "compute": {"kind": "lognormal", "spread": 0.5}, "spread": 0.4,
    "latency": 0.02, "bandwidth_up": 2000.0, "deadline": 0.3,
    "loss": {"probability": 0.2, "burst": 3},
}  # fmt: skip
MIXING = {"step_size": 0.1}
CLIPPED = {"coupling": 0.3, "step_size": 0.15, "samples": 3, "gradient_bound": 0.6}
NOISY = CLIPPED | {"noise": 0.4}
PRIVATE = [NOISY | {"clipping": "l1"}, NOISY | {"clipping": "l2"}]
S1 = {
    "name": "s1",
    "alpha_factor": 0.5, "beta_factor": 0.4, "gamma_factor": 0.6, "samples_factor": 0.05,
    "p_alpha": 0.5, "p_beta": 0.4, "p_gamma": 0.6, "p_m": 1.5, "p_zeta": -0.3, "p_eta": 0.2,
}  # fmt: skip
S2 = {
    "name": "s2", "alpha": 0.3, "beta": 0.2, "gamma": 0.15, "samples_base": 1.08,
    "p_zeta": 0.97, "p_eta": 0.95,
}  # fmt: skip
CONSTANT = {
    "name": "constant", "alpha": 0.3, "beta": 0.2, "gamma": 0.15, "samples": 3,
    "state_noise_scale": 0.7, "tracker_noise_scale": 0.4,
}  # fmt: skip
ADAPTIVE = ALL | WORK | {"global_step_size": 0.05, "adaptivity": 0.01}
AGENTS = {"coupling": 0.4, "step_size": 0.05, "samples": 2}
TOP, RAND = {"kind": "top_k", "share": 0.4}, {"kind": "rand_k", "k": 2}
LEVELS, NATURAL = {"kind": "quantised", "levels": 2}, {"kind": "natural"}

#: By method, the hyper-parameters of its cases.
CASES: dict[str, list[dict[str, Any]]] = {
    "fedavg": LOCAL,
    "fedprox": [own | {"proximal_weight": 0.7} for own in LOCAL],
    "scaffold": [*LOCAL, SOME | WORK | {"option": "I"}],
    "fedavgm": [own | {"momentum": 0.6} for own in LOCAL],
    "fedadam": [ADAPTIVE | {"second_momentum": 0.9}, ADAPTIVE | EPOCHS | {"momentum": 0.5}],
    "fedyogi": [ADAPTIVE | {"second_momentum": 0.9}, ADAPTIVE | EPOCHS | {"momentum": 0.5}],
    "fedadagrad": [ADAPTIVE, ADAPTIVE | EPOCHS | {"momentum": 0.5}],
    "feddyn": [
        ALL | WORK | {"regularisation": 0.4},
        SOME | WORK | {"regularisation": 0.8},
        EPOCHS | {"regularisation": 0.8},
    ],
    "fednova": LOCAL,
    "scaffnew": [
        {"step_size": 0.1, "communication_probability": 0.3},
        {"step_size": 0.1, "communication_probability": 0.5, "batch_size": 2},
    ],
    "mime": [
        *(own | {"momentum": 0.4} for own in LOCAL),
        SOME | WORK | {"momentum": 0.6, "lite": True},
        SOME | WORK | {"momentum": 0.0},
    ],
    "feddane": [
        ALL | WORK | {"proximal_weight": 0.7},
        SOME | WORK | {"proximal_weight": 0.0},
        EPOCHS | {"local_steps": 2, "proximal_weight": 0.7},
    ],
    "fedlin": [ALL | WORK, SOME | WORK, EPOCHS],
    "fedpaq": [
        LOCAL[0] | {"compressor": LEVELS},
        LOCAL[1] | {"compressor": NATURAL},
        LOCAL[2] | {"compressor": TOP},
        SOME | WORK | {"compressor": RAND},
        SOME | WORK | {"compressor": {"kind": "sign"}},
    ],
    "mifa": LOCAL,
    "amplified_fedavg": [
        LOCAL[0] | {"period": 1, "amplification": 1.5},
        LOCAL[1] | {"period": 3, "amplification": 2.0, "proximal_weight": 0.7},
        LOCAL[2] | {"period": 4, "amplification": 0.6},
    ],
    "power_of_choice": [
        SOME | WORK | {"candidates": CLIENTS, "effective_step": 0.3},
        SOME | WORK | {"candidates": 3},
        EPOCHS | {"local_steps": 2, "candidates": 5, "global_step_size": 0.8},
    ],
    "dp_local_sgd": [
        LOCAL[0] | {"clip_bound": 0.4, "noise_multiplier": 0.0},
        LOCAL[1] | {"clip_bound": 0.4, "noise_multiplier": 0.5, "proximal_weight": 0.7},
        LOCAL[1] | {"clip_bound": 0.2, "noise_multiplier": 0.5, "batch_size": 4},
    ],
    "fedsam": [own | {"radius": 0.3} for own in LOCAL],
    "cyclic": [WORK, {"local_unit": "epochs", "batch_size": 2} | WORK],
    "fedasync": [
        FLIGHT | {"mixing": 0.6, "proximal_weight": 0.3},
        FLIGHT | {"mixing": 0.6, "staleness": {"kind": "hinge", "slope": 2.0, "grace": 2}},
    ],
    "fedbuff": [
        FLIGHT | {"buffer_size": 2, "global_step_size": 0.8},
        FLIGHT | {"buffer_size": 3, "staleness": {"kind": "polynomial", "power": 0.5}},
    ],
    "pooled": [WORK, WORK | {"batch_size": 5}],
    "fedmid": LOCAL[:2],
    "fed_dual_avg": LOCAL[:2],
    "dp_fedavg": [
        *(own | {"clip_bound": 0.2, "noise_multiplier": 0.3} for own in LOCAL),
        SOME | WORK | {"clip_bound": 0.1, "noise_multiplier": 0.0, "sampling": "fixed_size"},
    ],
    "fedpage": [
        ALL | {"local_steps": 4, "global_step_size": 0.3, "local_batch_size": None}
        | {"full_round_probability": 0.3, "local_step_size": 0.2},
        {"clients_per_round": 3, "local_steps": 4, "global_step_size": 0.15, "full_batch_size": 4}
        | {"first_batch_size": 3, "local_batch_size": 2}
        | {"full_round_probability": {5: 0.9, 9: 0.1}},
        {"clients_per_round": 2, "local_steps": 1, "global_step_size": 0.1},
    ],
    "ef21": [
        ALL | {"step_size": 0.3, "compressor": TOP},
        SOME | {"step_size": 0.1, "compressor": {"kind": "sign"}},
        SOME | {"step_size": 0.1, "compressor": RAND},
    ],
    "diana": [
        ALL | {"step_size": 0.2, "compressor": RAND},
        SOME | {"step_size": 0.1, "memory_step": 0.3, "compressor": NATURAL},
        SOME | {"step_size": 0.1, "compressor": LEVELS},
    ],
    "ef14": [
        ALL | {"step_size": 0.3, "compressor": TOP},
        SOME | {"step_size": 0.1, "compressor": {"kind": "sign"}},
        SOME | {"step_size": 0.1, "compressor": RAND},
    ],
    "marina": [
        ALL | {"step_size": 0.2, "compressor": RAND, "full_round_probability": 0.3},
        SOME | {"step_size": 0.1, "compressor": NATURAL, "full_round_probability": 0.2},
        SOME | {"step_size": 0.1, "compressor": LEVELS, "full_round_probability": 0.5},
    ],
    "dasha": [
        ALL | {"step_size": 0.1, "compressor": RAND},
        ALL | {"step_size": 0.1, "compressor": NATURAL, "memory_step": 0.4},
        ALL | {"step_size": 0.1, "compressor": LEVELS, "batch_size": 2}
        | {"full_gradient_probability": 0.3},
    ],
    "choco_sgd": [
        AGENTS | {"compressor": {"kind": "top_k", "k": 2}},
        AGENTS | {"compressor": {"kind": "rand_k", "k": 1}},
    ],
    "local_dsgd": [MIXING | {"local_steps": 3}, MIXING | {"local_steps": 2, "samples": 2}],
    "extra": [MIXING, MIXING | {"samples": 2, "coupling": 0.7}],
    "nids": [MIXING, MIXING | {"samples": 2, "coupling": 0.4}],
    "gt_sarah": [MIXING | {"inner_steps": 0}, MIXING | {"inner_steps": 3, "samples": 2}],
    "sgp": [MIXING | {"coupling": 0.6}, MIXING | {"samples": 2, "coupling": 0.8}],
    "gaussian_gradient_descent": [*PRIVATE, NOISY | {"clipping": "none"}],
    "ternary_gradient_descent": [
        CLIPPED | {"clipping": own, "quantiser_range": 0.8} for own in ("l1", "l2")
    ],
    "binomial_gradient_descent": [  # of 576 coins, and of 655.36, rounded up
        PRIVATE[0] | {"coordinate_bound": 0.1, "levels": 7},
        PRIVATE[1] | {"noise": 0.1},
    ],
    "online_gradient_descent": PRIVATE,
    "growing_samples_descent": [own | {"growth": 1.03} for own in PRIVATE],
    "quantised_gradient_descent": [own | {"spacing": 0.25} for own in PRIVATE],
    "dp_gradient_tracking": [
        {"form": form, "clipping": "l1", "gradient_bound": 0.6, "horizon": 14, "scheme": scheme}
        for form in ("compact", "literal", "provable")
        for scheme in (S1, S2, CONSTANT)
    ],
}  # fmt: skip
#: Methods whose loops go by silos, parties or stages: the tests that compare them.
ELSEWHERE = {
    **dict.fromkeys(("vfb2_sgd", "vfb2_svrg", "vfb2_saga", "afsvrg_vp"), "test_vertical_methods"),
    **dict.fromkeys(
        ("local_sgda", "momentum_local_sgda", "fmgda", "coda", "coda_plus", "codasca"),
        "test_min_max_methods",
    ),
    "tdcd": "test_tdcd",
}
