package options

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// Uplink is what moving a link of the host onto a bridge needs to know.
type Uplink struct {
	// StateDir keeps the ledgers of moves; it survives a reboot.
	StateDir string
	// HostRun is where the host's /run is seen; empty: who manages links is not looked for.
	HostRun string
}

func (u *Uplink) flags(flags *flag.FlagSet) {
	flags.StringVar(&u.StateDir, "state-dir", "/var/lib/weft", "directory on the host's disk for what must survive a reboot: how far the move of a link onto its bridge is")
	flags.StringVar(&u.HostRun, "host-run", "", "where the host's /run is seen, to leave links alone that systemd-networkd or NetworkManager manage; empty: nobody is looked for")
}

// UplinkGuard is the command line of "weft-agent uplink-guard", which an agent starts for the time of a move.
type UplinkGuard struct {
	OpenVSwitch string
	Uplink      Uplink
	// Link and Attempt name the move.
	Link, Attempt string
	// Timeout is when a move is undone that is not confirmed.
	Timeout time.Duration
}

// ParseUplinkGuard reads arguments behind "uplink-guard".
func ParseUplinkGuard(args []string) (UplinkGuard, error) {
	var o UplinkGuard
	var socket, confDir, binDir string
	flags := flag.NewFlagSet("weft-agent uplink-guard", flag.ContinueOnError)
	hostFlags(flags, &o.OpenVSwitch, &socket, &confDir, &binDir)
	o.Uplink.flags(flags)
	flags.StringVar(&o.Link, "link", "", "the link that is moved")
	flags.StringVar(&o.Attempt, "attempt", "", "the move, as its ledger says")
	flags.DurationVar(&o.Timeout, "timeout", 0, "when to undo it, unless it is confirmed")
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

// ParseUplinkCommand reads arguments behind "uplink".
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
		return o, fmt.Errorf("uplink: want one of status, retry and release behind the flags, not %q", flags.Args())
	}
	_, err := remotes("--ovs", o.OpenVSwitch)
	return o, err
}
