"""Which random numbers of a seed are drawn for what: `default_rng([seed, NUMBER, STREAM])`, NUMBER as said, or 0.

Modules draw by `lightning_modules.base.derived_seed`. A stream that gets another value makes other runs: those
that share one are left so. In this way they do no harm:

- 6 and 7 of a clustering meet no LABEL_STREAM and no SECOND_STREAM: it sees no label, and has one order of rows.
- 7 of a round of active learning meets the SECOND_STREAM of a run of that round, in the epoch of the round's number:
  one draws among the texts to ask for, the other orders those that are labelled.
- 8 of folds is drawn with [repeat, folds, 8], without a seed and with 2 folds at least, where UNLABELLED_STREAM has 0.
"""

TRAIN_STREAM = 1  # batches of an epoch, which is NUMBER
SPLIT_STREAM = 2  # validation rows
THIN_STREAM = 3  # rows that imbalance leaves
VIEW_STREAM = 4  # augmentation: of a view, which is NUMBER; of images [seed, epoch, batch, rank, STREAM]
ORDER_STREAM = 5  # evaluation in an order that counts, several of which have NUMBERs
LABEL_STREAM = 6  # rows that keep their label
SECOND_STREAM = 7  # a further order of the train rows in an epoch, which is NUMBER
UNLABELLED_STREAM = 8  # texts without a label that are learned from

FOLD_STREAM = 8  # folds of protocol=kfold, without a seed

START_STREAM = 6  # task=cluster: where the clusters start
NUMBER_STREAM = 7  # task=cluster: how many clusters there are

QUERY_STREAM = 7  # active learning: texts that a round asks for, NUMBER; a person's first ones by [seed, STREAM]
