package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Result is the result of one `make bench`.
type Result struct {
	// Machine is the machine of the run. Figures of different machines are not comparable.
	Machine Machine `json:"machine"`
	Version string  `json:"version"`
	Runs    []Run   `json:"runs"`
}

// Machine describes the machine of a result.
type Machine struct {
	CPUs int `json:"cpus"`
	// LoadBefore is the load average of the last minute before the bench, caused by other programs.
	LoadBefore float64 `json:"loadBefore"`
	Go         string  `json:"go"`
}

// Size is the size of a run's cluster.
type Size struct {
	Nodes     int `json:"nodes"`
	Pods      int `json:"pods"`
	Services  int `json:"services"`
	Endpoints int `json:"endpoints"` // per service
	Policies  int `json:"policies"`
	Floating  int `json:"floating,omitempty"` // pods with a floating address, besides Pods
}

// Ports is how many pods have a port when all have been created.
func (s Size) Ports() int { return s.Pods + s.Floating }

func (s Size) String() string { return fmt.Sprintf("%d/%d", s.Nodes, s.Pods) }

// ParseSizes parses sizes such as "100/2000 250/5000": nodes and pods.
func ParseSizes(text string) ([]Size, error) {
	var sizes []Size
	for _, word := range strings.Fields(text) {
		nodes, pods, found := strings.Cut(word, "/")
		n, err := strconv.Atoi(nodes)
		m, err2 := strconv.Atoi(pods)
		if !found || err != nil || err2 != nil || n < 1 || m < 1 {
			return nil, fmt.Errorf("size %q is not NODES/PODS, such as 100/2000", word)
		}
		sizes = append(sizes, Size{Nodes: n, Pods: m})
	}
	if len(sizes) == 0 {
		return nil, fmt.Errorf("no sizes in %q", text)
	}
	return sizes, nil
}

// Run is the result of one controller on a cluster of one size.
type Run struct {
	Size       Size   `json:"size"`
	Controller string `json:"controller"`
	// Raft is true if the northbound database was a cluster of three members.
	Raft bool `json:"raft,omitempty"`

	// APIServer is how many pods per second the API server creates without a controller, and the cost of each.
	APIServer Rate `json:"apiServer"`
	// Database is how many ports per second ovsdb-server writes in groups of 100 for a client that does nothing
	// else.
	Database Rate `json:"database"`

	// Agents watch the southbound database from the storm on.
	Agents   Agents           `json:"agents,omitzero"`
	Nodes    Phase            `json:"nodes"`
	Storm    Storm            `json:"storm"`
	Services Phase            `json:"services"`
	Events   map[string]Event `json:"events"`
	// Floating creates all pods with a floating address.
	Floating Phase   `json:"floating,omitzero"`
	Restart  Restart `json:"restart"`
	Rebuild  Phase   `json:"rebuild"`
	// PeakMB is the largest resident memory of each process in the whole run. For the controller it is that of the
	// first process.
	PeakMB map[string]float64 `json:"peakMB"`
}

// Rate is a reference figure: the speed of a server without a controller.
type Rate struct {
	PerSecond float64 `json:"perSecond"`
	CPUms     float64 `json:"cpuMs"` // of the servers, per object
}

// Agents are monitors of the southbound database, one for each of several nodes.
type Agents struct {
	N int `json:"n"`
	// WholeMB is the size of an agent's first copy. ConnectCPUms is the server's CPU time to send it. ConnectMB is
	// the growth of the server's memory.
	WholeMB      float64 `json:"wholeMB"`
	ConnectCPUms float64 `json:"connectCPUms"`
	ConnectMB    float64 `json:"connectMB"`
}

// Phase is an action that happens once: N objects from the first call until the database has the last.
type Phase struct {
	N       int     `json:"n"`
	Seconds float64 `json:"seconds"`
	Cost    Cost    `json:"cost"`
}

// Cost is the cost of a phase or of one event.
type Cost struct {
	// CPUms is the CPU time of each process in milliseconds.
	CPUms map[string]float64 `json:"cpuMs"`
	// Transactions counts the transactions in the database's log that change a table other than NB_Global. Rows
	// counts the rows that they change.
	Transactions float64 `json:"transactions"`
	Rows         float64 `json:"rows"`
	// Reads and Writes are the controller's calls of the API server, without watches and leases.
	Reads  float64 `json:"reads"`
	Writes float64 `json:"writes"`
	// Sent is the number of bytes sent to the agents.
	Sent float64 `json:"sent,omitempty"`
}

// Per returns the cost per object for n objects.
func (c Cost) Per(n int) Cost {
	if n == 0 {
		return c
	}
	by := float64(n)
	one := Cost{CPUms: map[string]float64{}, Transactions: c.Transactions / by, Rows: c.Rows / by,
		Reads: c.Reads / by, Writes: c.Writes / by, Sent: c.Sent / by}
	for process, spent := range c.CPUms {
		one.CPUms[process] = spent / by
	}
	return one
}

// Total is the CPU time of all processes in milliseconds.
func (c Cost) Total() (sum float64) {
	for _, spent := range c.CPUms {
		sum += spent
	}
	return sum
}

// Storm creates all pods as fast as the API server accepts them.
type Storm struct {
	CreatedPerSecond float64 `json:"createdPerSecond"`
	// WiredPerSecond is measured from the first creation until the database has the last port.
	WiredPerSecond float64 `json:"wiredPerSecond"`
	// Lag is the time from the reply to a pod's creation until its port exists; 0 if the port came first.
	Lag    Spread `json:"lagMs"`
	PerPod Cost   `json:"perPod"`
}

// Kinds of events that a round has.
const (
	AddedPod        = "pod add"
	DeletedPod      = "pod delete"
	NewService      = "service with 2 endpoints"
	ChangedEndpoint = "endpoint changed"
	DeletedService  = "service delete"
	NewPolicy       = "policy of new selectors"
	DeletedPolicy   = "policy of new selectors, delete"
)

// Round returns the cost of one event of each kind of a round; ok is false if the run lacks a kind.
func (r Run) Round() (sum Cost, ok bool) {
	sum.CPUms = map[string]float64{}
	for _, kind := range []string{AddedPod, DeletedPod, NewService, ChangedEndpoint, DeletedService, NewPolicy, DeletedPolicy} {
		event, measured := r.Events[kind]
		if !measured {
			return sum, false
		}
		sum.add(event.Each)
	}
	return sum, true
}

func (c *Cost) add(more Cost) {
	for process, spent := range more.CPUms {
		c.CPUms[process] += spent
	}
	c.Transactions += more.Transactions
	c.Rows += more.Rows
	c.Reads += more.Reads
	c.Writes += more.Writes
	c.Sent += more.Sent
}

// Event is one kind of event in a steady state, one at a time: from the request to the API server until the database
// has the result.
type Event struct {
	Latency Spread `json:"latencyMs"`
	Each    Cost   `json:"each"`
}

// Restart is the start of a new process on a correct database.
type Restart struct {
	// FirstPodSeconds is the time from the process's start until a pod created at that moment has a port.
	FirstPodSeconds float64 `json:"firstPodSeconds"`
	// Cost is the cost until the process is idle, without that pod.
	Cost Cost `json:"cost"`
}

// Read reads a result.
func Read(path string) (Result, error) {
	var r Result
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("result %s: %w", path, err)
	}
	return r, nil
}
