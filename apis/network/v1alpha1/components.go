package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Components adjusts the pods that the operator runs. What is not set is as Weft delivers it. A change replaces the component's pods as an
// upgrade does, one node first.
type Components struct {
	// operator are the pods of the operator, and of the operators of zones.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name == 'operator')",message="the operator has one container: operator",reason=FieldValueInvalid,fieldPath=.containers
	Operator OperatorComponent `json:"operator,omitempty,omitzero"`
	// agent are the agents on the nodes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name == 'agent')",message="the agent has one container: agent",reason=FieldValueInvalid,fieldPath=.containers
	Agent AgentComponent `json:"agent,omitempty,omitzero"`
	// central are the pods with OVN's databases and ovn-northd, also in zones.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name in ['nb', 'sb', 'northd', 'member', 'chassis'])",message="the containers of central are nb, sb, northd, member and chassis",reason=FieldValueInvalid,fieldPath=.containers
	Central Component `json:"central,omitempty,omitzero"`
	// ovnController are the pods of ovn-controller on the nodes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name in ['controller', 'identity'])",message="the containers of ovnController are controller and identity",reason=FieldValueInvalid,fieldPath=.containers
	OVNController Component `json:"ovnController,omitempty,omitzero"`
	// openVSwitch are the pods of Open vSwitch on the nodes. On a node with the userspace datapath they are not replaced, because the node
	// has no network without them: a change takes effect when the pod is created the next time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name in ['ovsdb', 'vswitchd'])",message="the containers of openVSwitch are ovsdb and vswitchd",reason=FieldValueInvalid,fieldPath=.containers
	OpenVSwitch Component `json:"openVSwitch,omitempty,omitzero"`
	// relay are the pods of the relays of the southbound databases, and of their sources.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name in ['relay', 'source'])",message="the containers of relay are relay and source",reason=FieldValueInvalid,fieldPath=.containers
	Relay Component `json:"relay,omitempty,omitzero"`
	// ike are the pods of the IKE daemon on the nodes, which exist with encryption.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.containers) || self.containers.all(c, c.name == 'charon')",message="ike has one container: charon",reason=FieldValueInvalid,fieldPath=.containers
	IKE Component `json:"ike,omitempty,omitzero"`
}

// LogLevel is the lowest severity of the messages that a program writes.
//
// +kubebuilder:validation:Enum=Error;Warning;Info;Debug
type LogLevel string

// Values of LogLevel. Weft's programs have no warnings: Warning is as Error for them. Debug is verbose.
const (
	LogError   LogLevel = "Error"
	LogWarning LogLevel = "Warning"
	LogInfo    LogLevel = "Info"
	LogDebug   LogLevel = "Debug"
)

// LogFormat is how a program of Weft writes its messages.
//
// +kubebuilder:validation:Enum=JSON;Text
type LogFormat string

// Values of LogFormat.
const (
	LogJSON LogFormat = "JSON"
	LogText LogFormat = "Text"
)

// Component adjusts the pods of a component.
type Component struct {
	// logLevel is the lowest severity of the messages that its programs write. The default is Info.
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
	// containers adjusts its containers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Containers []ContainerSettings `json:"containers,omitempty"`
}

// OperatorComponent adjusts the pods of the operator.
type OperatorComponent struct {
	Component `json:",inline"`
	// logFormat is how it writes its messages. The default is JSON.
	// +optional
	LogFormat LogFormat `json:"logFormat,omitempty"`
	// egressIPProbes configures how it finds out which nodes can carry EgressIPs.
	// +optional
	EgressIPProbes EgressIPProbes `json:"egressIPProbes,omitempty,omitzero"`
}

// EgressIPProbes configures the probes of nodes that may carry EgressIPs.
type EgressIPProbes struct {
	// interval is the time between probes of a node, and the time limit of a response. The default is 1s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1m')",message="interval must be 100ms to 1m",reason=FieldValueInvalid
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	Interval *metav1.Duration `json:"interval,omitempty"`
	// misses is the number of consecutive missing responses after which a node's EgressIPs move to another. The default is 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Misses int32 `json:"misses,omitempty"`
	// disabled means that nodes are not probed. All count as reachable.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// AgentComponent adjusts the agents on the nodes.
type AgentComponent struct {
	Component `json:",inline"`
	// logFormat is how they write their messages. The default is JSON.
	// +optional
	LogFormat LogFormat `json:"logFormat,omitempty"`
	// delegates lets pods attach networks that other CNI plugins of the node serve. The default is true.
	// +optional
	Delegates *bool `json:"delegates,omitempty"`
	// paths are where the nodes have the files of their container runtime and kubelet. They must be equal on all nodes.
	// +optional
	Paths AgentPaths `json:"paths,omitempty,omitzero"`
}

// HostPath is an absolute path on the nodes, of at least two parts.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9_.-]+){2,}$') && !self.matches('/[.][.]?(/|$)')",message="must be an absolute path of at least two parts of letters, digits, _ . and -, which are not . or ..",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!self.matches('^/(usr/bin|usr/sbin|bin|sbin|lib|lib64|proc|sys|dev|host|etc/weft|opt/weft|run/weft|run/netns|run/openvswitch|run/ovn|var/lib/weft)(/|$)')",message="must not be a directory of the agent's own files",reason=FieldValueInvalid
type HostPath string

// AgentPaths are files of the nodes.
type AgentPaths struct {
	// cniConfDir is the directory of the runtime's network configurations. The default is /etc/cni/net.d. Before a change, the runtime must
	// read the new directory. What the agent wrote into the former one stays.
	// +optional
	CNIConfDir HostPath `json:"cniConfDir,omitempty"`
	// cniBinDir is the directory of the runtime's CNI plugins. The default is /opt/cni/bin.
	// +optional
	CNIBinDir HostPath `json:"cniBinDir,omitempty"`
	// criSocket is the socket of the container runtime's CRI service, in a directory of its own. The default is
	// /run/containerd/containerd.sock.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[^/]+/[^/]+/.+')",message="must be in a directory of its own, like /run/crio/crio.sock",reason=FieldValueInvalid
	CRISocket HostPath `json:"criSocket,omitempty"`
	// podResources is the socket of kubelet's service of that name. The default is /var/lib/kubelet/pod-resources/kubelet.sock.
	// +optional
	PodResources HostPath `json:"podResources,omitempty"`
}

// ContainerSettings adjusts a container.
type ContainerSettings struct {
	// name is the container's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// resources replace the amounts that Weft delivers. A delivered request above a limit is lowered to the limit.
	// +optional
	Resources ContainerResources `json:"resources,omitempty,omitzero"`
	// env are further environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Env []EnvironmentVariable `json:"env,omitempty"`
}

// ContainerResources are what a container requests, and its limits.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.cpu) || !has(self.limits.cpu) || !isQuantity(self.requests.cpu) || !isQuantity(self.limits.cpu) || quantity(self.requests.cpu).compareTo(quantity(self.limits.cpu)) <= 0",message="requests.cpu must not be more than limits.cpu",reason=FieldValueInvalid,fieldPath=.requests
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !has(self.requests.memory) || !has(self.limits.memory) || !isQuantity(self.requests.memory) || !isQuantity(self.limits.memory) || quantity(self.requests.memory).compareTo(quantity(self.limits.memory)) <= 0",message="requests.memory must not be more than limits.memory",reason=FieldValueInvalid,fieldPath=.requests
type ContainerResources struct {
	// requests are what the scheduler reserves.
	// +optional
	Requests ResourceAmounts `json:"requests,omitempty,omitzero"`
	// limits are the most that the container gets. Above the memory's limit it ends.
	// +optional
	Limits ResourceAmounts `json:"limits,omitempty,omitzero"`
}

// ResourceAmounts are amounts of CPU and memory.
type ResourceAmounts struct {
	// cpu is a number of CPUs: "2", "0.5", "250m".
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]*m?|[0-9]+[.][0-9]{1,3})$`
	CPU string `json:"cpu,omitempty"`
	// memory is a number of bytes, at least 16Mi: "256Mi", "1Gi".
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).compareTo(quantity('16Mi')) >= 0",message="memory must be a quantity of at least 16Mi",reason=FieldValueInvalid
	Memory string `json:"memory,omitempty"`
}

// EnvironmentVariable is an environment variable.
//
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('WEFT_') && !(self.name in ['NODE_NAME', 'POD_NAME', 'POD_NAMESPACE', 'POD_UID', 'KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT', 'STRONGSWAN_CONF'])",message="Weft sets this variable",reason=FieldValueForbidden,fieldPath=.name
type EnvironmentVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="must consist of letters, digits and _",reason=FieldValueInvalid
	Name string `json:"name"`
	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}
