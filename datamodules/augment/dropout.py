"""`augment=dropout`: equal texts, which the encoder's dropout embeds differently (Gao et al. 2021, SimCSE, §3)."""

import random
from dataclasses import dataclass

from datamodules.augment.base import Augmentation


@dataclass
class Dropout(Augmentation):
    """The text itself; of use only where the encoder trains with dropout."""

    name = "dropout"
    same_text = True

    def change(self, text: str, rng: random.Random) -> str:
        return text
