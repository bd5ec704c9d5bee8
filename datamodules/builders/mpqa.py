"""MPQA 2.0, type of a private state, from files that the user makes by the published recipe."""

from datamodules.builders.user_files import Csv


class MPQAType(Csv):
    """Sentences with one or more of agreement, arguing, intention and sentiment; labels between spaces.

    Arguments as `Csv`. The corpus has terms of its own, and the recipe's list of folds is not at hand: the user brings
    its three files.
    """

    licence = "MPQA 2.0: its own terms"
    origin = "MPQA 2.0 (Wiebe et al., 2005) by the recipe of Ahmadnia et al. (2024), theSaeed/opinion-mining-using-llms"
    paper = {"name": "SCL-HNM", "train": 4248, "val": 1060, "test": 1327, "classes": 4}
    differences = "none where the files are those of the recipe; its repeated labels count once"
