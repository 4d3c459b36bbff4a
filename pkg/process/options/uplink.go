package options

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// Uplink configures the move of a link of the host onto a bridge.
type Uplink struct {
	// StateDir holds the ledgers of moves. It survives a reboot.
	StateDir string
	// HostRun is where the host's /run is mounted. If it is empty, network managers are not detected.
	HostRun string
}

func (u *Uplink) flags(flags *flag.FlagSet) {
	flags.StringVar(&u.StateDir, "state-dir", "/var/lib/weft",
		"directory on the host's disk for state that must survive a reboot: the progress of moving a link onto its bridge, "+
			"and what other CNI plugins attached")
	flags.StringVar(&u.HostRun, "host-run", "",
		"where the host's /run is mounted, to leave links alone that systemd-networkd or NetworkManager manage; empty: do not detect them")
}

// UplinkGuard is the command line of "weft-agent uplink-guard", which an agent runs during a move.
type UplinkGuard struct {
	OpenVSwitch string
	Uplink      Uplink
	// Link and Attempt name the move.
	Link, Attempt string
	// Timeout is the time after which a move is rolled back unless it is confirmed.
	Timeout time.Duration
}

// ParseUplinkGuard parses the arguments after "uplink-guard".
func ParseUplinkGuard(args []string) (UplinkGuard, error) {
	var o UplinkGuard
	var socket, confDir, binDir string
	flags := flag.NewFlagSet("weft-agent uplink-guard", flag.ContinueOnError)
	hostFlags(flags, &o.OpenVSwitch, &socket, &confDir, &binDir)
	o.Uplink.flags(flags)
	flags.StringVar(&o.Link, "link", "", "the link that is moved")
	flags.StringVar(&o.Attempt, "attempt", "", "the move, as in its ledger")
	flags.DurationVar(&o.Timeout, "timeout", 0, "time after which to roll back, unless the move is confirmed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Link == "" || o.Attempt == "" || o.Timeout <= 0 {
		return o, errors.New("--link, --attempt and --timeout are required")
	}
	_, err := remotes("--ovs", o.OpenVSwitch)
	return o, err
}

// UplinkCommand is the command line of "weft-agent uplink".
type UplinkCommand struct {
	// Verb is "status", "retry" or "release".
	Verb        string
	OpenVSwitch string
	Uplink      Uplink
}

// ParseUplinkCommand parses the arguments after "uplink".
func ParseUplinkCommand(args []string) (UplinkCommand, error) {
	var o UplinkCommand
	var socket, confDir, binDir string
	flags := flag.NewFlagSet("weft-agent uplink status|retry|release", flag.ContinueOnError)
	hostFlags(flags, &o.OpenVSwitch, &socket, &confDir, &binDir)
	o.Uplink.flags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.Verb = flags.Arg(0); flags.NArg() != 1 || o.Verb != "status" && o.Verb != "retry" && o.Verb != "release" {
		return o, fmt.Errorf("uplink: want one of status, retry and release after the flags, not %q", flags.Args())
	}
	_, err := remotes("--ovs", o.OpenVSwitch)
	return o, err
}
