# SPDX-License-Identifier: Apache-2.0
"""A random walk, drawn with numpy and matplotlib into the scratch folder of the box.

    constrictor run --python build/venv-data/bin/python \\
        --preload numpy,matplotlib.pyplot examples/plot.py
"""
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

steps = np.random.default_rng().normal(size=(5, 1000))
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(steps.cumsum(axis=1).T, linewidth=1)
ax.set(title="Five random walks", xlabel="step", ylabel="distance")
fig.savefig("walks.png", dpi=120)
print(f"walks.png: {os.path.getsize('walks.png')} bytes")
