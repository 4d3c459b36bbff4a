package histories

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovn/ovnexpr"
	"github.com/weft-network/weft/pkg/topology"
	"github.com/weft-network/weft/pkg/unit"
	"github.com/weft-network/weft/test/histories/apiserver"
)

// observer watches the northbound database and the FloatingIPs at every change. It complains when
//
//   - an address of an IPPool is at the ports of two pods, or translated twice, at one moment,
//   - a port gets an address that no FloatingIP ever gave to its pod,
//   - a FloatingIP is taken from a living pod, except by a person, or because the pod got two addresses for one slot.
type observer struct {
	mu sync.Mutex
	// blind is set if the API server cannot be observed.
	blind bool
	ips   map[string]*networkv1alpha1.FloatingIP // by name, as they are
	// held are the pods that a FloatingIP ever named: address -> UIDs.
	held map[netip.Addr]map[string]bool
	// alive are the pods that have not ended.
	alive map[types.UID]bool
	// spoiled are ports whose addresses a vandal changed.
	spoiled map[string]bool
	// zones are the zones of nodes, and moved the nodes whose zone changed since the last quiet moment.
	zones map[string]networkv1alpha1.ZoneName
	moved map[string]bool
	// person is the FloatingIP that a person changes now.
	person string
	wrong  []error
	// gains counts the addresses that ports got, so that a test can check that something was observed.
	gains int
}

// newObserver returns an observer of a server's objects; a nil server cannot be observed.
func newObserver(server *apiserver.Server) *observer {
	o := &observer{blind: server == nil, ips: map[string]*networkv1alpha1.FloatingIP{}, held: map[netip.Addr]map[string]bool{},
		alive: map[types.UID]bool{}, spoiled: map[string]bool{}, zones: map[string]networkv1alpha1.ZoneName{}, moved: map[string]bool{}}
	if server != nil {
		server.Observe("pods", o.seePod)
		server.Observe(floatingIPs, o.seeFloatingIP)
		server.Observe("nodenetworks", o.seeNodeNetwork)
	}
	return o
}

func (o *observer) complain(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Errorf("the observer: "+format, args...))
}

// err returns what was wrong at any moment.
func (o *observer) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.wrong...)
}

// count returns how many floating addresses ports got.
func (o *observer) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gains
}

// spoil records that a vandal changed the addresses of a port.
func (o *observer) spoil(port string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spoiled[port] = true
}

// byPerson runs a person's change of a FloatingIP.
func (o *observer) byPerson(name string, change func() error) error {
	set := func(name string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.person = name
	}
	set(name)
	defer set("")
	return change()
}

func (o *observer) seePod(event string, text []byte) {
	var pod corev1.Pod
	err := json.Unmarshal(text, &pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.complain("pod %s: %w", text, err)
	}
	ended := event == "DELETED" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if o.alive[pod.UID] = !ended; ended {
		delete(o.alive, pod.UID)
	}
}

func (o *observer) seeNodeNetwork(_ string, text []byte) {
	var nn networkv1alpha1.NodeNetwork
	err := json.Unmarshal(text, &nn)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.complain("NodeNetwork %s: %w", text, err)
	}
	if o.zones[nn.Name] != nn.Spec.Zone {
		o.zones[nn.Name], o.moved[nn.Name] = nn.Spec.Zone, true
	}
}

// isMoving reports whether a node may be on its way to another zone.
func (o *observer) isMoving(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.blind || o.moved[node]
}

// settle records that all operators have followed the nodes.
func (o *observer) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.moved)
}

func (o *observer) seeFloatingIP(event string, text []byte) {
	now := &networkv1alpha1.FloatingIP{}
	err := json.Unmarshal(text, now)
	address, err2 := netip.ParseAddr(string(now.Spec.Address))
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := errors.Join(err, err2); err != nil {
		o.complain("FloatingIP %s: %w", text, err)
		return
	}
	before, after := podOf(o.ips[now.Name]), podOf(now)
	slot := o.ips[now.Name]
	if o.ips[now.Name] = now; event == "DELETED" {
		delete(o.ips, now.Name)
		after = ""
	}
	if before != "" && before != after && o.alive[before] && o.person != now.Name && !o.hasSlot(before, slot) {
		o.complain("FloatingIP %s was taken from living pod %s, now %q has it", now.Name, before, after)
	}
	if after != "" {
		if o.held[address] == nil {
			o.held[address] = map[string]bool{}
		}
		o.held[address][string(after)] = true
	}
}

// podOf returns the UID of the pod that has an address, or "".
func podOf(f *networkv1alpha1.FloatingIP) types.UID {
	if f == nil || f.Spec.Holder == nil {
		return ""
	}
	return f.Spec.Holder.PodUID
}

// hasSlot reports whether a pod has an address besides the lost one, for the same index and family.
func (o *observer) hasSlot(pod types.UID, lost *networkv1alpha1.FloatingIP) bool {
	is4 := func(f *networkv1alpha1.FloatingIP) bool { return netip.MustParseAddr(string(f.Spec.Address)).Is4() }
	for _, f := range o.ips {
		if f.Name != lost.Name && podOf(f) == pod && f.Spec.Holder.Index == lost.Spec.Holder.Index && is4(f) == is4(lost) {
			return true
		}
	}
	return false
}

// seeRows is called at each change of the database with the rows that changed, as they were: table -> UUID -> row.
func (o *observer) seeRows(rows database, before database) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, was := range before["Logical_Switch_Port"] {
		o.checkGains(rows["Logical_Switch_Port"][id], was)
	}
	o.checkOnce(rows["Logical_Switch_Port"])
	translations := map[string]string{} // external address -> row
	for _, id := range slices.Sorted(maps.Keys(rows["NAT"])) {
		r := rows["NAT"][id]
		external := oneAtom(r["external_ip"])
		if unit.Key(ownerOf(r)).Kind() != topology.KindPod || oneAtom(r["type"]) != nbdb.NATTypeDNATAndSNAT || external == spoiledTranslation {
			continue
		}
		if other := translations[external]; other != "" {
			o.complain("%s is translated by the rows %s and %s", external, other, id)
		}
		translations[external] = id
	}
}

// checkGains checks that each floating address that a port got was given to its pod.
func (o *observer) checkGains(now, was row) {
	had := marksOf(was)
	for _, address := range marksOf(now) {
		if slices.Contains(had, address) {
			continue
		}
		o.gains++
		pod := mapOf(now["options"])["iface-id-ver"]
		if !o.blind && pod != "" && !o.held[address][pod] {
			o.complain("port %s of pod %s has %s, which no FloatingIP gave to it", oneAtom(now["name"]), pod, address)
		}
	}
}

// checkOnce checks that no floating address is at two ports of pods.
func (o *observer) checkOnce(ports map[string]row) {
	at := map[netip.Addr][]string{} // address -> ports
	isFloating := map[netip.Addr]bool{}
	for _, id := range slices.Sorted(maps.Keys(ports)) {
		r := ports[id]
		if unit.Key(ownerOf(r)).Kind() != topology.KindPod || o.spoiled[id] {
			continue
		}
		addresses := marksOf(r)
		for _, address := range addresses {
			isFloating[address] = true
		}
		if port, err := parsePort(id, r); err == nil {
			addresses = append(addresses, port.addresses...)
		}
		for _, address := range addresses {
			if !slices.Contains(at[address], id) {
				at[address] = append(at[address], id)
			}
		}
	}
	for address, ids := range at {
		if len(ids) > 1 && isFloating[address] {
			o.complain("floating address %s is at the ports %s and %s at one moment", address, oneAtom(ports[ids[0]]["name"]),
				oneAtom(ports[ids[1]]["name"]))
		}
	}
}

// marksOf returns the floating addresses that a port names.
func marksOf(r row) (addresses []netip.Addr) {
	marks := mapOf(r["external_ids"])
	for _, key := range []string{ovnexpr.FloatingKey, ovnexpr.TranslatedKey} {
		some, _ := ovnexpr.ParseAddresses(marks, key) // the oracle reports marks that cannot be read
		addresses = append(addresses, some...)
	}
	return addresses
}

// oneAtom returns the first value of a column, or "".
func oneAtom(column json.RawMessage) string {
	if values := atoms(column); len(values) > 0 {
		return values[0]
	}
	return ""
}
