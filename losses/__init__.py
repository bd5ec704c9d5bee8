"""Losses in pure PyTorch: tensors in, scalar out; float32 under autocast, float64 kept."""

from losses.acl import ACLLoss, updated_centres, views_of_classes
from losses.aecl import AECLLoss
from losses.arguments import ClassificationLoss, full_precision
from losses.balanced_softmax import BalancedSoftmaxLoss, balanced_softmax
from losses.bcl import BalancedContrastiveLoss
from losses.bilateral import BilateralLoss
from losses.binary_cross_entropy import BinaryCrossEntropy
from losses.class_aware import ClassAwareClusteringLoss, ClassAwareContrastiveLoss
from losses.class_balanced import ClassBalancedLoss, class_balanced, class_balanced_weights
from losses.class_prior import (
    class_weights,
    effective_number_weights,
    inverse_frequency_weights,
    log_prior,
    negative_log_prior_weights,
)
from losses.clusters import (
    ClusterContrastiveLoss,
    assignment_entropy,
    balance_entropy,
    confident_clusters,
    divergence_from_uniform,
    pseudo_label_cross_entropy,
)
from losses.cosine_pairs import CosinePairLoss, cosine_pairs
from losses.dice import DiceLoss, dice
from losses.disalign import GeneralisedReweightingLoss, adaptive_calibration, generalised_weights
from losses.distributed import gather
from losses.dscl import DecoupledContrastiveLoss, PatchDistillationLoss
from losses.dualcl import DualContrastiveLoss
from losses.focal import FocalLoss, focal_per_sample
from losses.gml import GaussianMixtureLoss, class_log_mean_exp
from losses.info_nce import InfoNCELoss, info_nce
from losses.kcl import KPositiveContrastiveLoss
from losses.label_aware_smoothing import LabelAwareSmoothingLoss, class_smoothing, label_aware_smoothing
from losses.lade import LADELoss, lade_regulariser
from losses.ldam import LDAMLoss, class_margins, ldam
from losses.logit_compensated import CrossEntropy, LogitCompensatedCrossEntropy, logit_compensated_cross_entropy
from losses.multilabel_contrastive import MultiLabelContrastiveLoss
from losses.paco import ParametricContrastiveLoss
from losses.pairs import pair_gradients
from losses.proco import ProCoLoss, expected_logits, log_scaled_bessel
from losses.prototypical import PrototypicalContrastiveLoss, SupervisedPrototypicalContrastiveLoss
from losses.pseudo_labels import PseudoLabelLoss, SoftLabelLoss
from losses.scl_hnm import HardNegativeContrastiveLoss
from losses.sharprecl import (
    RebalancedSamples,
    SharpReCLLoss,
    draw_samples,
    hard_ratio_schedule,
)
from losses.simcse import SimCSELoss
from losses.similarity_guided import SimilarityGuidedLoss
from losses.student_t import StudentTClusteringLoss, sharpened_targets, student_t_log_assignments
from losses.supervised_contrastive import SupervisedContrastiveLoss, supervised_contrastive
from losses.text_clustering import RSTCLoss, SCCLLoss
from losses.transport import self_adaptive_transport
from losses.tsc import TargetedContrastiveLoss, uniform_targets, uniformity

__all__ = [
    "ACLLoss",
    "AECLLoss",
    "BalancedContrastiveLoss",
    "BalancedSoftmaxLoss",
    "BilateralLoss",
    "BinaryCrossEntropy",
    "ClassAwareClusteringLoss",
    "ClassAwareContrastiveLoss",
    "ClassBalancedLoss",
    "ClassificationLoss",
    "ClusterContrastiveLoss",
    "CosinePairLoss",
    "CrossEntropy",
    "DecoupledContrastiveLoss",
    "DiceLoss",
    "DualContrastiveLoss",
    "FocalLoss",
    "GaussianMixtureLoss",
    "GeneralisedReweightingLoss",
    "HardNegativeContrastiveLoss",
    "InfoNCELoss",
    "KPositiveContrastiveLoss",
    "LADELoss",
    "LDAMLoss",
    "LabelAwareSmoothingLoss",
    "LogitCompensatedCrossEntropy",
    "MultiLabelContrastiveLoss",
    "ParametricContrastiveLoss",
    "PatchDistillationLoss",
    "ProCoLoss",
    "PrototypicalContrastiveLoss",
    "PseudoLabelLoss",
    "RSTCLoss",
    "RebalancedSamples",
    "SCCLLoss",
    "SharpReCLLoss",
    "SimCSELoss",
    "SimilarityGuidedLoss",
    "SoftLabelLoss",
    "StudentTClusteringLoss",
    "SupervisedContrastiveLoss",
    "SupervisedPrototypicalContrastiveLoss",
    "TargetedContrastiveLoss",
    "adaptive_calibration",
    "assignment_entropy",
    "balance_entropy",
    "balanced_softmax",
    "class_balanced",
    "class_balanced_weights",
    "class_log_mean_exp",
    "class_margins",
    "class_smoothing",
    "class_weights",
    "confident_clusters",
    "cosine_pairs",
    "dice",
    "divergence_from_uniform",
    "draw_samples",
    "effective_number_weights",
    "expected_logits",
    "focal_per_sample",
    "full_precision",
    "gather",
    "generalised_weights",
    "hard_ratio_schedule",
    "info_nce",
    "inverse_frequency_weights",
    "label_aware_smoothing",
    "lade_regulariser",
    "ldam",
    "log_prior",
    "log_scaled_bessel",
    "logit_compensated_cross_entropy",
    "negative_log_prior_weights",
    "pair_gradients",
    "pseudo_label_cross_entropy",
    "self_adaptive_transport",
    "sharpened_targets",
    "student_t_log_assignments",
    "supervised_contrastive",
    "uniform_targets",
    "uniformity",
    "updated_centres",
    "views_of_classes",
]
