package sandbox

import "time"

// Request asks for one thing; the first field that is set says which.
type Request struct {
	ID      uint64
	Make    []string `json:",omitempty"` // network namespaces to make and mount, by name
	Destroy []string `json:",omitempty"` // those to take away; one that is gone is no error
	Calls   []Call   `json:",omitempty"` // plugins to execute, all at once
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
	// KillAfter ends the plugin by SIGKILL, as a runtime that gives up does; 0: it may take as long as it likes.
	KillAfter time.Duration
}

// Answer is what came of the request of the same ID.
type Answer struct {
	ID    uint64
	Error string `json:",omitempty"`
	Ends  []End  `json:",omitempty"` // of Calls, in their order
}

// End is how a plugin ended.
type End struct {
	Exit   int           // -1 if a signal ended it
	Output string        // its standard output: a result, or an error with its code
	Took   time.Duration // from before the fork until its end is known
}

// Path is where a namespace that Make made is mounted.
func Path(name string) string { return dir + "/" + name }

const dir = "/run/netns"
