package ipsec

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strongswan/govici/vici"
)

// callTimeout limits how long charon may take for a command.
const callTimeout = 10 * time.Second

// negotiation is the time after which keys are negotiated again with a peer that did not answer.
const negotiation = 30 * time.Second

// charon is a session with the IKE daemon, which has what loaded says.
type charon struct {
	session *vici.Session
	list    *vici.Session // for list-sas alone
	id      identity
	loaded  map[string]connection // by name
	begun   bool                  // what an earlier daemon left is removed
	fresh   bool                  // the daemon has just started
	tried   map[string]time.Time
}

// listed is the event by which the daemon answers list-sas.
const listed = "list-sa"

// dial connects with the daemon at a socket. It calls changed when keys were negotiated or ended, and ended when the session has ended.
func dial(socket string, changed, ended func()) (*charon, error) {
	session, err := vici.NewSession(vici.WithSocketPath(socket))
	if err != nil {
		return nil, fmt.Errorf("connect with the IKE daemon at %s: %w", socket, err)
	}
	const waiting = 16 // one event in the queue says as much as many
	events := make(chan vici.Event, waiting)
	session.NotifyEvents(events)
	if err := session.Subscribe("ike-updown", "child-updown"); err != nil {
		return nil, errors.Join(fmt.Errorf("IKE daemon: %w", err), session.Close())
	}
	list, err := vici.NewSession(vici.WithSocketPath(socket))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect with the IKE daemon at %s: %w", socket, err), session.Close())
	}
	if err := list.Subscribe(listed); err != nil {
		return nil, errors.Join(fmt.Errorf("IKE daemon: %w", err), session.Close(), list.Close())
	}
	go func() {
		for range events {
			changed()
		}
		ended()
	}()
	return &charon{session: session, list: list, loaded: map[string]connection{}, tried: map[string]time.Time{}}, nil
}

func (c *charon) close() { _, _ = c.session.Close(), c.list.Close() } // they end with their connections

// call executes a command, and returns an error of the daemon as an error.
func (c *charon) call(ctx context.Context, command string, content any) (*vici.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in, err := vici.MarshalMessage(content)
	if err != nil {
		return nil, fmt.Errorf("IKE daemon: %s: %w", command, err)
	}
	out, err := c.session.Call(ctx, command, in)
	if err != nil {
		return nil, fmt.Errorf("IKE daemon: %s: %w", command, err)
	}
	return out, nil
}

// begin removes the keys of an earlier daemon, if this one has just started.
func (c *charon) begin(ctx context.Context) error {
	if c.begun {
		return nil
	}
	present, err := c.connections(ctx)
	if err == nil && !slices.ContainsFunc(present, func(name string) bool { return strings.HasPrefix(name, namePrefix) }) {
		c.fresh, err = true, clearStaleStates()
	}
	c.begun = err == nil
	return err
}

// identify loads the node's key and the authorities, if they are new. Connections that exist stay.
func (c *charon) identify(ctx context.Context, id identity) error {
	if c.id == id {
		return nil
	}
	type none struct{}
	if _, err := c.call(ctx, "clear-creds", none{}); err != nil {
		return err
	}
	type key struct {
		Type string `vici:"type"`
		Data string `vici:"data"`
	}
	if _, err := c.call(ctx, "load-key", key{Type: "any", Data: id.key}); err != nil {
		return err
	}
	type cert struct {
		Type string `vici:"type"`
		Flag string `vici:"flag"`
		Data string `vici:"data"`
	}
	if _, err := c.call(ctx, "load-cert", cert{Type: "X509", Flag: "NONE", Data: id.certificate}); err != nil {
		return err
	}
	for block, rest := pem.Decode([]byte(id.authorities)); block != nil; block, rest = pem.Decode(rest) {
		if _, err := c.call(ctx, "load-cert", cert{Type: "X509", Flag: "CA", Data: string(pem.EncodeToMemory(block))}); err != nil {
			return err
		}
	}
	c.id = id
	return nil
}

// load makes the daemon have these connections, and no others of Weft. It ends the keys of connections that it removes.
func (c *charon) load(ctx context.Context, want map[string]connection) error {
	for name, connection := range want {
		if reflect.DeepEqual(c.loaded[name], connection) {
			continue
		}
		if _, err := c.call(ctx, "load-conn", map[string]any{name: connection}); err != nil {
			return fmt.Errorf("connection %s: %w", name, err)
		}
		c.loaded[name] = connection
	}
	present, err := c.connections(ctx)
	if err != nil {
		return err
	}
	for _, name := range present {
		if _, wanted := want[name]; wanted || !strings.HasPrefix(name, namePrefix) {
			continue
		}
		if err := c.unload(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// connections lists the connections that the daemon has, also connections of an earlier agent.
func (c *charon) connections(ctx context.Context) ([]string, error) {
	type none struct{}
	out, err := c.call(ctx, "get-conns", none{})
	if err != nil {
		return nil, err
	}
	names, _ := out.Get("conns").([]string)
	return names, nil
}

func (c *charon) unload(ctx context.Context, name string) error {
	type named struct {
		Name string `vici:"name"`
	}
	if _, err := c.call(ctx, "unload-conn", named{name}); err != nil {
		return err
	}
	delete(c.loaded, name)
	type ike struct {
		IKE     string `vici:"ike"`
		Timeout string `vici:"timeout"`
		Force   string `vici:"force"`
	}
	_, err := c.call(ctx, "terminate", ike{IKE: name, Timeout: "-1", Force: "yes"})
	if err != nil && strings.Contains(err.Error(), "no matching SAs") {
		return nil
	}
	return err
}

// reload makes the daemon install the policies of these connections again, and negotiate new keys. Replacing a connection alone would not
// do: while keys use a policy, charon takes it for installed.
func (c *charon) reload(ctx context.Context, peers []Peer, want map[string]connection) error {
	for _, p := range peers {
		if err := c.unload(ctx, p.name()); err != nil {
			return err
		}
		delete(c.tried, p.name())
	}
	return c.load(ctx, want)
}

// negotiate begins to negotiate keys with peers that have none. After a restart both nodes begin, so that the other one ends its keys of
// the daemon that is gone. This node also begins with reloaded peers. It returns when to call it again for peers that did not answer;
// 0: never.
func (c *charon) negotiate(ctx context.Context, peers, reloaded []Peer, now time.Time) (again time.Duration, err error) {
	type child struct {
		Child   string `vici:"child"`
		IKE     string `vici:"ike"`
		Timeout string `vici:"timeout"`
	}
	for _, p := range peers {
		if !p.begins() && !c.fresh && !slices.Contains(reloaded, p) {
			continue
		}
		again = negotiation
		if now.Sub(c.tried[p.name()]) < negotiation {
			continue
		}
		c.tried[p.name()] = now
		if _, err := c.call(ctx, "initiate", child{Child: outward, IKE: p.name(), Timeout: "-1"}); err != nil {
			return again, err
		}
	}
	return again, nil
}

// spare is how many IKE SAs with one peer are read: former ones remain until the peer is known to be gone.
const spare = 16

// installed returns the keys that are in the kernel by charon's account, by the names of connections. A connection without negotiated
// keys is absent.
func (c *charon) installed(ctx context.Context, peers []Peer) (map[string][]keys, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	byName := map[string]Peer{}
	for _, p := range peers {
		byName[p.name()] = p
	}
	// The events precede the answer. vici's CallStreaming takes either first, so that it loses the others.
	events := make(chan vici.Event, spare+spare*len(peers))
	c.list.NotifyEvents(events)
	_, err := c.list.Call(ctx, "list-sas", vici.NewMessage())
	c.list.StopEvents(events)
	switch {
	case err != nil:
		return nil, fmt.Errorf("IKE daemon: list-sas: %w", err)
	case len(events) == cap(events): // more may be lost
		return nil, fmt.Errorf("IKE daemon: list-sas: more than %d answers for %d peers", len(events), len(peers))
	}
	found := map[string][]keys{}
	for range len(events) {
		message := (<-events).Message
		if message == nil { // the session has ended
			break
		}
		for _, name := range message.Keys() {
			sa, ok := message.Get(name).(*vici.Message)
			peer, known := byName[name]
			if ok && known && sa.Get("state") == "ESTABLISHED" {
				found[name] = append(found[name], keysOf(sa, peer)...)
			}
		}
	}
	return found, nil
}

// inUse are the states of a child whose keys are in the kernel. While keys are renewed, only the former ones may be there as a whole.
var inUse = []string{"INSTALLED", "REKEYING", "REKEYED"}

// keysOf returns the keys of an IKE SA's children.
func keysOf(sa *vici.Message, peer Peer) (all []keys) {
	children, ok := sa.Get("child-sas").(*vici.Message)
	if !ok {
		return nil
	}
	for _, key := range children.Keys() {
		child, ok := children.Get(key).(*vici.Message)
		if !ok {
			continue
		}
		text := func(key string) string {
			value, _ := child.Get(key).(string)
			return value
		}
		const hex, bits = 16, 32
		in, err := strconv.ParseUint(text("spi-in"), hex, bits)
		out, err2 := strconv.ParseUint(text("spi-out"), hex, bits)
		if err == nil && err2 == nil && slices.Contains(inUse, text("state")) {
			all = append(all, keys{text("name"), state{peer.Local, uint32(in)}, state{peer.Address, uint32(out)}, text("state") != "INSTALLED"})
		}
	}
	return all
}
