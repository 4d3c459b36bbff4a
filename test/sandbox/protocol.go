package sandbox

import "time"

// Request requests one action; the first field that is set selects it.
type Request struct {
	ID      uint64
	Make    []string `json:",omitempty"` // network namespaces to create and mount, by name
	Destroy []string `json:",omitempty"` // network namespaces to remove; a missing one is no error
	Reach   *Reach   `json:",omitempty"` // an interface to wait for
	Calls   []Call   `json:",omitempty"` // plugins to execute in parallel
}

// Call is one execution of a plugin, as a runtime does it.
type Call struct {
	Plugin      string // path of the program
	Command     string // ADD, DEL, CHECK, ...
	ContainerID string
	NetNS       string // path; may be empty for DEL
	IfName      string
	Args        string // CNI_ARGS
	Config      string // standard input
	// KillAfter kills the plugin after this time, like a runtime that gives up; 0: no limit.
	KillAfter time.Duration
}

// Reach waits until an address answers through an interface of a network namespace, which may not exist yet.
type Reach struct {
	NetNS  string // path
	IfName string
	To     string // an IPv4 address
}

// Answer is the result of the request with the same ID.
type Answer struct {
	ID    uint64
	Error string `json:",omitempty"`
	Ends  []End  `json:",omitempty"` // results of Calls, in the same order
}

// End is the result of a plugin.
type End struct {
	Exit   int           // -1 if a signal ended it
	Output string        // its standard output: a result, or an error with its code
	Took   time.Duration // from before the fork until its end is detected
}

// Path returns where Make mounts a namespace.
func Path(name string) string { return dir + "/" + name }

const dir = "/run/netns"
