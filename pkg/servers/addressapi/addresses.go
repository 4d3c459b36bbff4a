package addressapi

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/netip"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

var problemStruct = reflect.TypeFor[Problem]()

// States of an address.
const (
	stateUsed = "used"
	stateKept = "kept"
	stateFree = "free"
)

// ListAddressesInput are the parameters of a list of addresses.
type ListAddressesInput struct {
	Pool      string `query:"pool" maxLength:"253" doc:"Only addresses of this pool."`
	Namespace string `query:"namespace" maxLength:"253" doc:"Only addresses of workloads in this namespace."`
	Kind      string `query:"kind" maxLength:"253" doc:"Only addresses of workloads of this kind, such as StatefulSet."`
	Workload  string `query:"workload" maxLength:"253" doc:"Only addresses of workloads of this name."`
	Pod       string `query:"pod" maxLength:"253" doc:"Only addresses of pods of this name."`
	State     string `query:"state" enum:"used,kept,free" doc:"Only addresses in this state."`
	Text      string `query:"text" maxLength:"253" doc:"Only addresses with this text in a field, in upper or lower case."`
	Sort      string `query:"sort" enum:"address,-address,pool,-pool,workload,-workload,pod,-pod,node,-node,since,-since" default:"address"`
	Paging
}

// ListAddressesOutput is a page of addresses.
type ListAddressesOutput struct {
	Body AddressPage
}

// AddressPage is a page of addresses.
type AddressPage struct {
	Items []Address `json:"items" nullable:"false" doc:"The addresses."`
	Total int       `json:"total" doc:"How many addresses the filters select, on all pages."`
	Next  string    `json:"next,omitempty" doc:"The cursor of the next page. Absent on the last page."`
}

// OneAddressInput names an address.
type OneAddressInput struct {
	Address string `path:"address" format:"ip" maxLength:"79" example:"192.0.2.10" doc:"The address."`
}

// AddressDetailOutput is an address.
type AddressDetailOutput struct {
	Body AddressDetail
}

func (a *API) addresses() {
	register(a, operation{id: "list-addresses", method: http.MethodGet, path: "/v1/addresses", tag: "addresses",
		summary:     "List addresses",
		description: "Lists the addresses that are used, kept, reserved or preallocated. Other addresses of a pool are free and not listed.",
		needs:       right{verb: "list", resource: floatingIPs}}, a.listAddresses)
	register(a, operation{id: "get-address", method: http.MethodGet, path: "/v1/addresses/{address}", tag: "addresses",
		summary: "Get an address", description: "Returns an address with its holder and its earlier holders.",
		errors: []int{http.StatusNotFound}, needs: right{verb: "get", resource: floatingIPs, parameter: "address"}}, a.getAddress)
	register(a, operation{id: "release-address", method: http.MethodPost, path: "/v1/addresses/{address}/release", tag: "addresses",
		summary: "Release an address", description: "Takes a kept address from its holder. " + releaseRule,
		errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity},
		needs:  right{verb: "update", resource: floatingIPs, parameter: "address"}}, a.releaseAddress)
	register(a, operation{id: "release-addresses", method: http.MethodPost, path: "/v1/release", tag: "addresses",
		summary: "Release several addresses", description: "Takes addresses from their holders. Each has a result of its own. " + releaseRule,
		needs: releaseRight}, a.releaseAddresses)
}

func (a *API) listAddresses(ctx context.Context, in *ListAddressesInput) (*ListAddressesOutput, error) {
	var all networkv1alpha1.FloatingIPList
	if err := a.client.List(ctx, &all); err != nil {
		return nil, err
	}
	key := addressKeys[trimMinus(in.Sort)]
	entries := make([]entry[*networkv1alpha1.FloatingIP], 0, len(all.Items))
	for i := range all.Items {
		if f := &all.Items[i]; in.selects(f) {
			entries = append(entries, entry[*networkv1alpha1.FloatingIP]{f, key(f), addressID(f)})
		}
	}
	page, next, err := paginate(entries, in.Sort, in.Paging)
	if err != nil {
		return nil, err
	}
	out := &ListAddressesOutput{AddressPage{Items: make([]Address, 0, len(page)), Total: len(entries), Next: next}}
	for _, e := range page {
		out.Body.Items = append(out.Body.Items, describe(e.object))
	}
	return out, nil
}

// selects reports whether the filters select an address.
func (in *ListAddressesInput) selects(f *networkv1alpha1.FloatingIP) bool {
	h := holderOf(f)
	for _, filter := range [][2]string{{in.Pool, f.Spec.Pool}, {in.Namespace, h.Namespace}, {in.Kind, h.Kind}, {in.Workload, h.Name},
		{in.Pod, h.Pod}, {in.State, stateOf(f)}} {
		if filter[0] != "" && filter[0] != filter[1] {
			return false
		}
	}
	return in.Text == "" || contains(in.Text, string(f.Spec.Address), f.Spec.Pool, h.Namespace, h.Kind, h.Name, h.Pod, h.Node)
}

// addressKeys has the key of each order. Addresses with the same key are sorted by the address.
var addressKeys = map[string]func(*networkv1alpha1.FloatingIP) string{
	"address":  func(*networkv1alpha1.FloatingIP) string { return "" },
	"pool":     func(f *networkv1alpha1.FloatingIP) string { return f.Spec.Pool },
	"workload": func(f *networkv1alpha1.FloatingIP) string { return holderOf(f).Namespace + "/" + holderOf(f).Name },
	"pod":      func(f *networkv1alpha1.FloatingIP) string { return holderOf(f).Namespace + "/" + holderOf(f).Pod },
	"node":     func(f *networkv1alpha1.FloatingIP) string { return holderOf(f).Node },
	"since":    func(f *networkv1alpha1.FloatingIP) string { return timeKey(holderOf(f).Since.Time) },
}

// timeKey returns a text that sorts as the time.
func timeKey(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000") }

// addressID returns a text that sorts as the address, IPv4 first.
func addressID(f *networkv1alpha1.FloatingIP) string {
	address, err := netip.ParseAddr(string(f.Spec.Address))
	if err != nil {
		return "9" + f.Name // the API server refuses such a FloatingIP
	}
	family := "6"
	if address.Is4() {
		family = "4"
	}
	return family + hex.EncodeToString(address.AsSlice())
}

func (a *API) getAddress(ctx context.Context, in *OneAddressInput) (*AddressDetailOutput, error) {
	name, err := nameOf(in.Address)
	if err != nil {
		return nil, err
	}
	var f networkv1alpha1.FloatingIP
	if err := a.client.Get(ctx, client.ObjectKey{Name: name}, &f); client.IgnoreNotFound(err) != nil {
		return nil, err
	} else if err != nil {
		return nil, absent(in.Address)
	}
	return &AddressDetailOutput{detail(&f)}, nil
}

func detail(f *networkv1alpha1.FloatingIP) AddressDetail {
	d := AddressDetail{Address: describe(f), History: make([]Use, 0, len(f.Status.History))}
	for _, use := range f.Status.History {
		d.History = append(d.History, Use{Kind: use.Kind, Namespace: use.Namespace, Name: use.Name, Pod: use.Pod, Node: use.Node,
			From: use.From.UTC(), Until: use.Until.UTC()})
	}
	return d
}

// describe returns a FloatingIP as the API describes it.
func describe(f *networkv1alpha1.FloatingIP) Address {
	_, reserved := f.Labels[networkv1alpha1.ReservedLabel]
	address := Address{Address: string(f.Spec.Address), Pool: f.Spec.Pool, State: stateOf(f), Reserved: reserved,
		ResourceVersion: f.ResourceVersion}
	if h := f.Spec.Holder; h != nil {
		address.Holder = &Holder{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Pod: h.Pod, Node: h.Node,
			Index: h.Index, ReleasePolicy: string(h.ReleasePolicy), Since: h.Since.UTC()}
		if h.TTL != nil {
			address.Holder.TTL = h.TTL.Duration.String()
		}
	}
	return address
}

func stateOf(f *networkv1alpha1.FloatingIP) string {
	switch h := f.Spec.Holder; {
	case h == nil:
		return stateFree
	case h.PodUID == "":
		return stateKept
	}
	return stateUsed
}

// holderOf returns the holder, or an empty one.
func holderOf(f *networkv1alpha1.FloatingIP) networkv1alpha1.FloatingIPHolder {
	if f.Spec.Holder == nil {
		return networkv1alpha1.FloatingIPHolder{}
	}
	return *f.Spec.Holder
}

// parseAddress reads an address of a request.
func parseAddress(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return address, err
	}
	return address.Unmap().WithZone(""), nil
}

// nameOf returns the name of an address' FloatingIP.
func nameOf(text string) (string, error) {
	address, err := parseAddress(text)
	if err != nil {
		return "", problem(http.StatusBadRequest, "address: "+err.Error(), ProblemField{Parameter: "address", Detail: err.Error()})
	}
	return networkv1alpha1.FloatingIPName(address), nil
}

func absent(address string) *Problem {
	return problemf(http.StatusNotFound, "address %s is neither in use nor preallocated: it has no FloatingIP", address)
}
