package v1alpha1

// ConditionWildcardsObserved of a NodeNetwork with spec.wildcards: the node observes which addresses its pods get for the
// names.
const ConditionWildcardsObserved = "WildcardsObserved"

// ReasonTooManyAddresses of ConditionWildcardsObserved: the names have more addresses than a node keeps. Further addresses
// are left out until others expire.
const ReasonTooManyAddresses = "TooManyAddresses"
