"""`augment=none`: every view is the text itself."""

import random
from dataclasses import dataclass

from datamodules.augment.base import Augmentation


@dataclass
class NoAugmentation(Augmentation):
    """The text itself."""

    name = "none"

    def change(self, text: str, rng: random.Random) -> str:
        return text
