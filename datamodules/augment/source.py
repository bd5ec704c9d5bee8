"""`augment=source`: the augmented text that the data set ships."""

from dataclasses import dataclass

from datamodules.augment.base import Augmentation
from storage.errors import InputError


@dataclass
class Source(Augmentation):
    """The shipped text of each row; every seed gives the same.

    Raises:
        InputError: the data set ships none, or none for some rows.
    """

    name = "source"

    def augment(self, texts: list[str], seed: int, aug_column: list[str | None] | None = None) -> list[str]:
        shipped = [text for text in aug_column or () if text and text.strip()]
        if len(shipped) < len(texts):
            raise InputError(
                "augment=source: found rows without an augmented text, allowed: a data set that ships one for each "
                "(or dataset.aug_column), else augment=embedding, wordnet or eda"
            )
        return shipped
