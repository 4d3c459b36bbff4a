package addressapi

import "time"

// Address is an address of a pool that is in use, kept, reserved or preallocated.
type Address struct {
	Address         string  `json:"address" format:"ip" example:"192.0.2.10" doc:"The address."`
	Pool            string  `json:"pool" example:"web" doc:"Name of the pool."`
	State           string  `json:"state" enum:"used,kept,free" doc:"free: nobody has it. kept: no pod of its holder has it."`
	Reserved        bool    `json:"reserved" doc:"The label network.weft.dev/reserved keeps the address from new holders."`
	Holder          *Holder `json:"holder,omitempty" doc:"The workload that has the address. Absent, the address is free."`
	ResourceVersion string  `json:"resourceVersion" doc:"Version of the FloatingIP."`
}

// Holder is a workload that has an address, and its pod.
type Holder struct {
	APIVersion    string    `json:"apiVersion" example:"apps/v1" doc:"API version of the workload."`
	Kind          string    `json:"kind" example:"StatefulSet" doc:"Kind of the workload."`
	Namespace     string    `json:"namespace" example:"shop" doc:"Namespace of the workload."`
	Name          string    `json:"name" example:"db" doc:"Name of the workload."`
	Pod           string    `json:"pod,omitempty" example:"db-0" doc:"The pod that has the address, or had it last."`
	Node          string    `json:"node,omitempty" doc:"The node of the pod."`
	Index         int32     `json:"index" doc:"Number of the address among the pod's addresses of its family, from 0."`
	ReleasePolicy string    `json:"releasePolicy,omitempty" doc:"Pod, Immutable or Never: when the address becomes free."`
	TTL           string    `json:"ttl,omitempty" example:"72h0m0s" doc:"How long the address is kept without a pod. Absent, without limit."`
	Since         time.Time `json:"since" doc:"When the pod got the address, or lost it."`
}

// AddressDetail is an address with its history.
type AddressDetail struct {
	Address
	History []Use `json:"history" nullable:"false" doc:"Earlier pods, the latest first."`
}

// Use is a former use of an address.
type Use struct {
	Kind      string    `json:"kind" doc:"Kind of the workload."`
	Namespace string    `json:"namespace" doc:"Namespace of the workload."`
	Name      string    `json:"name" doc:"Name of the workload."`
	Pod       string    `json:"pod,omitempty" doc:"The pod."`
	Node      string    `json:"node,omitempty" doc:"The node of the pod."`
	From      time.Time `json:"from" doc:"When the pod got the address."`
	Until     time.Time `json:"until" doc:"When the pod lost the address."`
}

// Pool is an IPPool.
type Pool struct {
	Name            string     `json:"name" example:"web" doc:"Name of the pool."`
	ResourceVersion string     `json:"resourceVersion" doc:"Version of the pool. A change must name it."`
	Created         time.Time  `json:"created" doc:"When the pool was created."`
	Spec            PoolSpec   `json:"spec" doc:"The addresses of the pool."`
	Status          PoolStatus `json:"status" doc:"What the operator reports."`
}

// PoolSpec has the fields of IPPoolSpec, with the same JSON names.
type PoolSpec struct {
	Location   string      `json:"location" enum:"Overlay,Underlay,NAT" doc:"Where the addresses live. Immutable."`
	Network    string      `json:"network,omitempty" minLength:"1" maxLength:"63" doc:"The Network of an Underlay pool. Immutable."`
	Ranges     []PoolRange `json:"ranges" minItems:"1" maxItems:"64" nullable:"false" doc:"The addresses. A range in use cannot be removed."`
	Namespaces *Selector   `json:"namespaces,omitempty" doc:"Namespaces that may use it. Empty: all. Absent: none."`
	Size       int32       `json:"size,omitempty" minimum:"0" maximum:"4096" doc:"Addresses of each family to preallocate."`
}

// PoolRange is a range of addresses, and the nodes that can carry it.
type PoolRange struct {
	Addresses    string    `json:"addresses" minLength:"1" maxLength:"79" example:"192.0.2.10-192.0.2.99" doc:"Address, CIDR or first-last."`
	NodeSelector *Selector `json:"nodeSelector,omitempty" doc:"Nodes whose pods can have the addresses. Absent: all."`
}

// Selector is a Kubernetes label selector.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty" doc:"Labels with their values."`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty" nullable:"false" maxItems:"64" doc:"Further requirements."`
}

// Requirement is a requirement of a label selector.
type Requirement struct {
	Key      string   `json:"key" minLength:"1" maxLength:"317" example:"rack" doc:"Key of the label."`
	Operator string   `json:"operator" enum:"In,NotIn,Exists,DoesNotExist" doc:"How the values are compared."`
	Values   []string `json:"values,omitempty" nullable:"false" maxItems:"256" doc:"Values for In and NotIn."`
}

// PoolStatus is what the operator reports of a pool.
type PoolStatus struct {
	Total   int64  `json:"total" doc:"Addresses of the pool."`
	Used    int64  `json:"used" doc:"Addresses that a pod has."`
	Kept    int64  `json:"kept" doc:"Addresses that are kept for a workload without a pod at present."`
	Ready   string `json:"ready" enum:"True,False,Unknown" doc:"Whether pods can get addresses. Unknown: not checked yet."`
	Message string `json:"message" doc:"Why the pool is not ready."`
}
