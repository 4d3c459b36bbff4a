package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"

	"github.com/weft-network/weft/pkg/agent/desired"
)

// OpenFlow 1.5 (OpenFlow Switch Specification 1.5.1, 7.2.3), and extensions of Open vSwitch (openvswitch/nicira-ext.h and
// meta-flow.h).
const (
	oxmMetadata = 0x80000408
	nxmRegister = 0x00010108 // register 0, with a mask; register n has n<<9 more
	applyAction = 4
	actionLearn = 16
	// actionLearn2 is the form that Open vSwitch sends for some options.
	actionLearn2 = 45
)

// OVN matches that learnedBit of learnedRegister is 0 where a flow learns the backend of a client, and nowhere else.
const learnedRegister, learnedBit = 9, 1 << 6

// Learner is a table of a logical datapath in which a flow learns the backend of a client.
type Learner struct {
	Datapath uint64
	Table    int
}

// Learners follows the flows of a bridge that learn the backends of clients.
type Learners struct {
	conn  net.Conn
	flows map[string]Learner // by the flow's identity
}

// DialLearners connects to a bridge of the ovs-vswitchd whose run directory is runDir, and follows the flows of these logical
// datapaths.
func DialLearners(ctx context.Context, runDir, bridge string, datapaths ...uint64) (*Learners, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(runDir, bridge+".mgmt"))
	if err != nil {
		return nil, err
	}
	request := append(message(typeHello, nil),
		monitor(1, watchRemoved|watchModify, registerField(desired.DetourRegister, 0, desired.DetourBit))...)
	request = append(request,
		monitor(2, watchRemoved|watchModify, registerField(desired.DetourRegister, desired.DetourBit, desired.DetourBit))...)
	for i, datapath := range datapaths {
		field := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, oxmMetadata), datapath)
		request = append(request, monitor(uint32(3+i), watchAll, append(field, registerField(learnedRegister, 0, learnedBit)...))...)
	}
	if _, err := conn.Write(request); err != nil {
		conn.Close()
		return nil, err
	}
	return &Learners{conn: conn, flows: map[string]Learner{}}, nil
}

// Close closes the connection. A Receive that waits returns an error.
func (l *Learners) Close() error { return l.conn.Close() }

// Receive waits for a change, and first for the present state. It returns the tables with learning flows. lost reports that
// a flow of Weft was removed or changed, which may have been Weft itself.
func (l *Learners) Receive() (tables map[Learner]bool, lost bool, err error) {
	for {
		kind, body, err := receive(l.conn)
		if err != nil {
			return nil, false, err
		}
		if kind != typeMultipart+1 {
			continue
		}
		if lost, err = l.update(body); err != nil {
			return nil, false, err
		}
		tables = map[Learner]bool{}
		for _, learner := range l.flows {
			tables[learner] = true
		}
		return tables, lost, nil
	}
}

// registerField encodes some bits of a register for a match.
func registerField(register, value, mask uint32) []byte {
	field := binary.BigEndian.AppendUint32(nil, nxmRegister+register<<9)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(field, value), mask)
}

// update records the updates of a reply.
func (l *Learners) update(reply []byte) (lost bool, err error) {
	err = eachUpdate(reply, func(u update) error {
		if u.event == updatePaused {
			return errors.New("the switch could not send all changes of flows")
		}
		lost = l.flow(u) || lost
		return nil
	})
	return lost, err
}

// flow records an update of one flow, and reports whether the flow is Weft's.
func (l *Learners) flow(u update) (isOurs bool) {
	if !u.isOfFlow() {
		return false
	}
	if u.cookie&oursMask == ours {
		return u.event != updateAdded && u.event != updateInitial
	}
	delete(l.flows, u.identity)
	if datapath, ok := metadataOf(u.fields); ok && u.event != updateRemoved && learns(u.instructions) {
		l.flows[u.identity] = Learner{Datapath: datapath, Table: u.table}
	}
	return false
}

// metadataOf returns the logical datapath that a match has.
func metadataOf(fields []byte) (datapath uint64, ok bool) {
	for len(fields) >= 4 {
		header, length := binary.BigEndian.Uint32(fields), int(fields[3])
		if 4+length > len(fields) {
			return 0, false
		}
		if header == oxmMetadata {
			return binary.BigEndian.Uint64(fields[4:]), true
		}
		fields = fields[4+length:]
	}
	return 0, false
}

// learns reports whether the first action of instructions is learn.
func learns(instructions []byte) bool {
	if len(instructions) < 18 || binary.BigEndian.Uint16(instructions) != applyAction {
		return false
	}
	action := instructions[8:]
	if binary.BigEndian.Uint16(action) != actionVendor || binary.BigEndian.Uint32(action[4:]) != vendorNicira {
		return false
	}
	subtype := binary.BigEndian.Uint16(action[8:])
	return subtype == actionLearn || subtype == actionLearn2
}
