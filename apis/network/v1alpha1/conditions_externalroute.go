package v1alpha1

// Reasons of ConditionReady of an ExternalRoute.
const (
	// ReasonNoNextHop: no router can be used. The selected pods leave as other pods.
	ReasonNoNextHop = "NoNextHop"
	// ReasonNextHopsUnusable: some routers cannot be used; the message names them. Of
	// GatewayReady: a next hop of spec.gateway is not used, because the node's link does not reach it.
	ReasonNextHopsUnusable = "NextHopsUnusable"
	// ReasonNextHopsDown: watched routers do not answer; the message names them, and the nodes that they do not answer.
	ReasonNextHopsDown = "NextHopsDown"
)
