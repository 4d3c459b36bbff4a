package v1alpha1

// Reasons of ConditionReady of an IPPool, besides ReasonAsExpected and ReasonInvalidSpec.
const (
	// ReasonRangeOverlaps: a range overlaps something else; the message names both.
	ReasonRangeOverlaps = "RangeOverlaps"
	// ReasonRangeOutside: a range is not where the pool's location needs it; the message says where that is.
	ReasonRangeOutside = "RangeOutside"
	// ReasonRangeInUse: addresses in use are in no range any more; the message names them and their holders.
	ReasonRangeInUse = "RangeInUse"
)
