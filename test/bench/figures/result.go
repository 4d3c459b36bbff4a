package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Result is what one `make bench` found.
type Result struct {
	// Machine says what it ran on: figures of two machines do not compare.
	Machine Machine `json:"machine"`
	Version string  `json:"version"`
	Runs    []Run   `json:"runs"`
}

// Machine is where a result comes from.
type Machine struct {
	CPUs int `json:"cpus"`
	// LoadBefore is the load average of the last minute when the bench began: what else ran.
	LoadBefore float64 `json:"loadBefore"`
	Go         string  `json:"go"`
}

// Size is the cluster of a run.
type Size struct {
	Nodes     int `json:"nodes"`
	Pods      int `json:"pods"`
	Services  int `json:"services"`
	Endpoints int `json:"endpoints"` // of each service
	Policies  int `json:"policies"`
}

func (s Size) String() string { return fmt.Sprintf("%d/%d", s.Nodes, s.Pods) }

// ParseSizes reads "100/2000 250/5000": nodes and pods.
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

// Run is one controller on a cluster of one size.
type Run struct {
	Size       Size   `json:"size"`
	Controller string `json:"controller"`
	// Raft says that the northbound database was a cluster of three members.
	Raft bool `json:"raft,omitempty"`

	// APIServer is how many pods per second the API server takes while no controller runs, and what one costs.
	APIServer Rate `json:"apiServer"`
	// Database is how many ports per second ovsdb-server takes in groups of 100, from a client that does nothing else.
	Database Rate `json:"database"`

	// Agents watch the southbound database from the storm on.
	Agents   Agents           `json:"agents,omitzero"`
	Nodes    Phase            `json:"nodes"`
	Storm    Storm            `json:"storm"`
	Services Phase            `json:"services"`
	Events   map[string]Event `json:"events"`
	Restart  Restart          `json:"restart"`
	Rebuild  Phase            `json:"rebuild"`
	// PeakMB is the greatest resident memory of each process in the whole run, of the controller in its first life.
	PeakMB map[string]float64 `json:"peakMB"`
}

// Rate is an anchor: what a server does alone.
type Rate struct {
	PerSecond float64 `json:"perSecond"`
	CPUms     float64 `json:"cpuMs"` // of the servers, for each
}

// Agents are monitors of the southbound database, one for each of some nodes.
type Agents struct {
	N int `json:"n"`
	// WholeMB is the first copy that one is sent, ConnectCPUms what it takes the server to send it, ConnectMB by how much its memory grows.
	WholeMB      float64 `json:"wholeMB"`
	ConnectCPUms float64 `json:"connectCPUms"`
	ConnectMB    float64 `json:"connectMB"`
}

// Phase is what happens once: N objects from the first call until the database has the last.
type Phase struct {
	N       int     `json:"n"`
	Seconds float64 `json:"seconds"`
	Cost    Cost    `json:"cost"`
}

// Cost is what a phase, or one event, took.
type Cost struct {
	// CPUms is the CPU time of each process in milliseconds.
	CPUms map[string]float64 `json:"cpuMs"`
	// Transactions are those of the database's log that change another table than NB_Global, Rows the rows that they change.
	Transactions float64 `json:"transactions"`
	Rows         float64 `json:"rows"`
	// Reads and Writes are the controller's calls of the API server, without watches and leases.
	Reads  float64 `json:"reads"`
	Writes float64 `json:"writes"`
	// Sent is what the agents were sent, in bytes.
	Sent float64 `json:"sent,omitempty"`
}

// Per is the cost of one of n.
func (c Cost) Per(n int) Cost {
	if n == 0 {
		return c
	}
	by := float64(n)
	one := Cost{CPUms: map[string]float64{}, Transactions: c.Transactions / by, Rows: c.Rows / by, Reads: c.Reads / by, Writes: c.Writes / by, Sent: c.Sent / by}
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

// Storm is every pod created as fast as the API server takes them.
type Storm struct {
	CreatedPerSecond float64 `json:"createdPerSecond"`
	// WiredPerSecond counts from the first creation until the database has the last port.
	WiredPerSecond float64 `json:"wiredPerSecond"`
	// Lag is how long a port comes after the reply to its pod's creation; 0 where it comes before.
	Lag    Spread `json:"lagMs"`
	PerPod Cost   `json:"perPod"`
}

// Event is one kind of event at steady state, one at a time: from sending the request to the API server until the database has it.
type Event struct {
	Latency Spread `json:"latencyMs"`
	Each    Cost   `json:"each"`
}

// Restart is the start of a new process on a database that is as it should be.
type Restart struct {
	// FirstPodSeconds is from the process's start until the port of a pod that is created at that moment.
	FirstPodSeconds float64 `json:"firstPodSeconds"`
	// Cost is until the process is at rest, without that one pod.
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
