"""`augment=none`: every view is the row itself."""

import random
from dataclasses import dataclass

from datamodules.augment.base import Augmentation


@dataclass
class NoAugmentation(Augmentation):
    """The row itself."""

    name = "none"
    kinds = None
    same_text = True

    def change(self, text: str, rng: random.Random) -> str:
        return text
