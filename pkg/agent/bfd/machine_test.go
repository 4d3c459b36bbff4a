package bfd

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

var (
	usual = Settings{Transmit: 300 * ms, Receive: 300 * ms, Multiplier: 3}
	begin = time.Unix(0, 0)
)

// from is a packet of a router with the usual settings in a state.
func from(s State) Packet {
	return Packet{State: s, Multiplier: 3, Mine: 7, Yours: 1, Transmit: 300 * ms, Receive: 300 * ms}
}

// in returns a machine in a state.
func in(s State) machine {
	m := newMachine(usual, 1)
	for _, p := range map[State][]State{Init: {Down}, Up: {Down, Up}}[s] {
		m = m.receivePacket(from(p), begin)
	}
	if s == AdminDown {
		m = m.disable()
	}
	return m
}

// The states follow RFC 5880 §6.2 and §6.8.6.
func TestStates(t *testing.T) {
	for _, c := range []struct{ state, received, want State }{
		{Down, AdminDown, Down}, {Down, Down, Init}, {Down, Init, Up}, {Down, Up, Down},
		{Init, AdminDown, Down}, {Init, Down, Init}, {Init, Init, Up}, {Init, Up, Up},
		{Up, AdminDown, Down}, {Up, Down, Down}, {Up, Init, Up}, {Up, Up, Up},
		{AdminDown, Down, AdminDown}, {AdminDown, Init, AdminDown}, {AdminDown, Up, AdminDown},
	} {
		if have := in(c.state).receivePacket(from(c.received), begin).state; have != c.want {
			t.Errorf("%s with a packet %s: %s, want %s", c.state, c.received, have, c.want)
		}
	}
}

// Who has not seen the node's discriminator cannot end a session. A router that restarts is accepted when the one before is
// silent for long enough.
func TestAForgedPacket(t *testing.T) {
	forged := from(Down)
	forged.Mine, forged.Yours = 99, 0
	up := in(Up)
	if up.receivePacket(forged, begin) != up {
		t.Error("the packet counts")
	}
	if m := up.expire(begin.Add(time.Second)).receivePacket(forged, begin); m.state != Init || m.theirs != 99 {
		t.Errorf("after a restart of the router: %+v", m)
	}
}

// Only a lost router is a failure, and the status and the next packet say why the session is down.
func TestFailures(t *testing.T) {
	signal := from(Down)
	signal.Diagnostic = timeExpired
	for name, c := range map[string]struct {
		machine    machine
		failed     bool
		message    string
		diagnostic Diagnostic
	}{
		"silence":     {in(Up).expire(begin.Add(900 * ms)), true, "no packet of the router arrived for 900ms", timeExpired},
		"signalled":   {in(Up).receivePacket(signal, begin), true, "it received no packets in its detection time", signalled},
		"off":         {in(Up).receivePacket(from(AdminDown), begin), false, "BFD is switched off at the router", signalled},
		"never up":    {in(Init).expire(begin.Add(time.Second)), false, "", timeExpired},
		"disabled":    {in(Up).disable(), false, "", disabled},
		"not expired": {in(Up).expire(begin.Add(900*ms - 1)), false, "", noDiagnostic},
	} {
		s := c.machine.status("")
		if s.Failed != c.failed || !strings.Contains(s.Message, c.message) || (c.message == "") != (s.Message == "") ||
			c.machine.packet().Diagnostic != c.diagnostic {
			t.Errorf("%s: %+v with diagnostic %s", name, s, c.machine.diagnostic)
		}
	}
	again := in(Up).expire(begin.Add(time.Second)).receivePacket(from(Init), begin)
	if s := again.status(""); !s.Up || s.Failed || s.Message != "" {
		t.Errorf("a router that returned: %+v", s)
	}
}

// An agent that did not run at the deadline reads what has arrived, and then decides.
func TestALateDeadline(t *testing.T) {
	woken := begin.Add(time.Minute)
	m := in(Up).expire(woken)
	if m.state != Up || !m.deadline().Equal(woken.Add(300*ms)) {
		t.Fatalf("%s until %s", m.state, m.deadline())
	}
	if read := m.receivePacket(from(Up), woken); read.state != Up || !read.deadline().Equal(woken.Add(900*ms)) || read.late {
		t.Errorf("a packet that waited: %+v", read)
	}
	if silent := m.expire(woken.Add(time.Hour)); silent.state != Down || silent.late {
		t.Errorf("no packet waited: %+v", silent)
	}
}

// A session that does not come up says why, when the router had time to answer.
func TestWaiting(t *testing.T) {
	fresh, half := newMachine(usual, 1), in(Init)
	for range unanswered - 1 {
		fresh, half = fresh.count(), half.count()
	}
	if s := fresh.status("no route"); s != (Status{}) {
		t.Errorf("too early: %+v", s)
	}
	fresh, half = fresh.count(), half.count()
	for want, s := range map[string]Status{"the router sends no packets": fresh.status(""), "no route": fresh.status("no route"),
		"the router does not answer the node's packets": half.status("")} {
		if s.Up || s.Failed || !strings.HasPrefix(s.Message, want) {
			t.Errorf("%+v, want %q", s, want)
		}
	}
}

// Packets are slow until the session is up, and then as fast as both sides want (RFC 5880 §6.8.2 to §6.8.4).
func TestIntervals(t *testing.T) {
	m := newMachine(usual, 1)
	if have := m.interval(); have != slow || m.packet().Transmit != slow {
		t.Errorf("before the session is up: %s, and says %s", have, m.packet().Transmit)
	}
	up := in(Up)
	if up.interval() != 300*ms || !up.packet().Poll || up.packet().Transmit != 300*ms {
		t.Errorf("up: %s, packet %+v", up.interval(), up.packet())
	}
	lazy := from(Up)
	lazy.Receive, lazy.Transmit, lazy.Multiplier = 2*time.Second, 400*ms, 5
	m = up.receivePacket(lazy, begin)
	if m.interval() != 2*time.Second || m.detection() != 2*time.Second || !m.deadline().Equal(begin.Add(2*time.Second)) {
		t.Errorf("a slow router: sends every %s, detects in %s", m.interval(), m.detection())
	}
	lazy.Receive = 0
	if have := up.receivePacket(lazy, begin).interval(); have != 0 {
		t.Errorf("a router that wants no packets gets them every %s", have)
	}
	for range 1000 {
		if have := jittered(slow, rand.Float64()); have < 3*slow/4 || have >= slow {
			t.Fatalf("jittered: %s", have)
		}
	}
}

// A router in demand mode gets no periodic packets but polls (RFC 5880 §6.8.7).
func TestDemand(t *testing.T) {
	p := from(Up)
	p.Demand, p.Final = true, true
	m := in(Up).receivePacket(p, begin)
	if m.interval() != 0 {
		t.Errorf("packets every %s", m.interval())
	}
	if m = m.configure(Settings{Transmit: slow, Receive: slow, Multiplier: 3}); m.interval() == 0 {
		t.Error("no packet polls")
	}
}

// Changed settings take effect without the end of the session, and never before the router has confirmed them (RFC 5880 §6.8.3).
func TestChangedSettings(t *testing.T) {
	confirm := from(Up)
	confirm.Final = true
	m := in(Up).receivePacket(confirm, begin)
	if m.polling {
		t.Fatal("polls after a confirmation")
	}
	slower := m.configure(Settings{Transmit: 500 * ms, Receive: 100 * ms, Multiplier: 2})
	if p := slower.packet(); slower.transmit != 300*ms || slower.receive != 300*ms || !p.Poll || p.Transmit != 500*ms || p.Receive != 100*ms {
		t.Errorf("before the confirmation: sends every %s, expects every %s, %+v", slower.transmit, slower.receive, p)
	}
	if after := slower.receivePacket(confirm, begin); after.transmit != 500*ms || after.receive != 100*ms || after.packet().Poll {
		t.Errorf("after the confirmation: sends every %s, expects every %s", after.transmit, after.receive)
	}
	faster := slower.configure(Settings{Transmit: 50 * ms, Receive: 800 * ms, Multiplier: 2})
	if faster.transmit != 50*ms || faster.receive != 800*ms {
		t.Errorf("sends every %s, expects every %s", faster.transmit, faster.receive)
	}
	once := faster.receivePacket(confirm, begin) // of the settings before
	if !once.packet().Poll || once.receivePacket(confirm, begin).packet().Poll {
		t.Error("the second change needs a confirmation of its own")
	}
	if m.configure(usual) != m {
		t.Error("the same settings change the session")
	}
}

// An answer to a poll has the Final bit alone.
func TestFinal(t *testing.T) {
	if p := in(Up).final(); p.Poll || !p.Final {
		t.Errorf("%+v", p)
	}
}

// world is two machines with a link between them, and a clock that the test sets.
type world struct {
	machines [2]machine
	sends    [2]time.Time
	now      time.Time
	cut      [2]bool // packets from this machine are lost
	loss     float64
	random   *rand.Rand
	failures int
}

func newWorld(seed uint64, settings [2]Settings) *world {
	return &world{machines: [2]machine{newMachine(settings[0], 1), newMachine(settings[1], 2)}, sends: [2]time.Time{begin, begin}, now: begin,
		random: rand.New(rand.NewPCG(seed, 1))}
}

// step advances the clock to the next event, and does it.
func (w *world) step() {
	who, what, at := 0, "send", w.sends[0]
	for i, m := range w.machines {
		if w.sends[i].Before(at) {
			who, what, at = i, "send", w.sends[i]
		}
		if d := m.deadline(); !d.IsZero() && d.Before(at) {
			who, what, at = i, "expire", d
		}
	}
	w.now = at
	if what == "expire" {
		w.set(who, w.machines[who].expire(at))
		return
	}
	w.send(who, w.machines[who].packet())
	w.sends[who] = at.Add(jittered(w.machines[who].interval(), w.random.Float64()))
}

func (w *world) set(who int, m machine) {
	if w.machines[who].state == Up && m.state == Down && m.status("").Failed {
		w.failures++
	}
	w.machines[who] = m
}

func (w *world) send(who int, p Packet) {
	if w.cut[who] || w.random.Float64() < w.loss {
		return
	}
	other := 1 - who
	parsed, err := Parse(p.Bytes())
	if err != nil {
		panic(err)
	}
	w.set(other, w.machines[other].receivePacket(parsed, w.now))
	if next := w.machines[other].interval(); w.sends[other].After(w.now.Add(next)) { // a faster session
		w.sends[other] = w.now.Add(jittered(next, w.random.Float64()))
	}
	if parsed.Poll {
		w.send(other, w.machines[other].final())
	}
}

func (w *world) until(end time.Duration) {
	for end := begin.Add(end); w.now.Before(end); {
		w.step()
	}
}

func (w *world) up() bool { return w.machines[0].state == Up && w.machines[1].state == Up }

// Two machines come up whatever their settings and with lost packets. Without losses they stay up, and a cut in either
// direction takes both down within the detection time.
func TestTwoMachines(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var settings [2]Settings
		for i := range settings {
			settings[i] = Settings{Transmit: time.Duration(10+random.IntN(2000)) * ms, Receive: time.Duration(10+random.IntN(2000)) * ms,
				Multiplier: uint8(2 + random.IntN(5))}
		}
		w := newWorld(seed, settings)
		w.loss = 0.2
		w.until(time.Minute)
		w.loss = 0
		w.until(2 * time.Minute)
		if !w.up() {
			t.Fatalf("seed %d: not up: %+v", seed, w.machines)
		}
		w.failures = 0
		w.until(10 * time.Minute)
		if !w.up() || w.failures > 0 || w.machines[0].polling || w.machines[1].polling {
			t.Fatalf("seed %d: %d failures without a loss: %+v", seed, w.failures, w.machines)
		}
		cut := random.IntN(2)
		w.cut[cut] = true
		blind := w.machines[1-cut]
		for w.machines[1-cut].state == Up {
			w.step()
		}
		if took := w.now.Sub(blind.received); took > blind.detection() {
			t.Fatalf("seed %d: detected after %s, want %s", seed, took, blind.detection())
		}
		w.until(15 * time.Minute)
		if w.machines[0].state == Up || w.machines[1].state == Up || w.failures != 2 {
			t.Fatalf("seed %d: %d failures after a cut: %+v", seed, w.failures, w.machines)
		}
	}
}
