"""Losses in pure PyTorch: tensors in, scalar out; float32 under autocast, float64 kept."""

from losses.class_prior import class_weights, effective_number_weights, log_prior, negative_log_prior_weights
from losses.distributed import gather
from losses.info_nce import InfoNCELoss, info_nce
from losses.logit_compensated import CrossEntropy, LogitCompensatedCrossEntropy, logit_compensated_cross_entropy
from losses.sharprecl import (
    RebalancedSamples,
    SharpReCLLoss,
    draw_samples,
    hard_ratio_schedule,
    rebalanced_sets,
)
from losses.supervised_contrastive import SupervisedContrastiveLoss, supervised_contrastive

__all__ = [
    "CrossEntropy",
    "InfoNCELoss",
    "LogitCompensatedCrossEntropy",
    "RebalancedSamples",
    "SharpReCLLoss",
    "SupervisedContrastiveLoss",
    "class_weights",
    "draw_samples",
    "effective_number_weights",
    "gather",
    "hard_ratio_schedule",
    "info_nce",
    "log_prior",
    "logit_compensated_cross_entropy",
    "negative_log_prior_weights",
    "rebalanced_sets",
    "supervised_contrastive",
]
