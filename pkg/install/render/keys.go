package render

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-network/weft/pkg/install/member"
	"github.com/weft-network/weft/pkg/install/pki"
)

// caKey is the key of the authorities' certificates in a Secret, next to the keys of type kubernetes.io/tls.
const caKey = "ca.crt"

// SouthboundAuthority is the Secret of the authority that signs chassis.
const SouthboundAuthority = "weft-sb-ca"

// authority is an authority's Secret, and the Secrets of the pairs that it signs, mapped to the names of their
// subjects.
type authority struct {
	secret string
	pairs  map[string]string
}

// servers are the Secrets of the database servers and relays. Their certificates include the addresses of these members.
// The servers of all zones have the same Secrets.
var servers = map[string]func(Place) []Member{
	"weft-nb-server": membersOfAll,
	"weft-sb-server": membersOfAll,
	RelaySecret:      relaysOfAll,
}

var authorities = []authority{
	{"weft-nb-ca", map[string]string{"weft-nb-server": "weft-nb", "weft-nb-tls": "weft-operator"}},
	{SouthboundAuthority, map[string]string{"weft-sb-server": "weft-sb", "weft-sb-tls": "weft-agent", // no chassis is named weft-agent
		RelaySecret: member.RelayName}},
}

// Change is a Secret to write, and the reason.
type Change struct {
	Secret *corev1.Secret
	Why    string
}

// Keys compares the existing Secrets, by name, with the Secrets that are needed now. next is when to call Keys again;
// it is never zero. Keys creates an authority only if its Secret does not exist.
func Keys(namespace string, before map[string]*corev1.Secret, place Place, now time.Time) (changes []Change, next time.Time, err error) {
	for _, a := range authorities {
		ca, change, err := readAuthority(namespace, a.secret, before[a.secret], now)
		if err != nil {
			return nil, next, err
		}
		if change != nil {
			changes = append(changes, *change)
		}
		for _, name := range slices.Sorted(maps.Keys(a.pairs)) {
			subject := pki.Subject{Name: a.pairs[name]}
			if of := servers[name]; of != nil {
				subject.Addresses = allAddresses(of(place))
			}
			if name == RelaySecret && len(subject.Addresses) == 0 {
				continue
			}
			pair := pairOf(before[name])
			why := ca.ReissueReason(pair, subject, now)
			if why == "" && string(dataOf(before[name], caKey)) != string(ca.Cert) {
				why = "ca.crt is not the authority's certificate"
			}
			if why != "" {
				if pair, err = ca.Issue(subject, now); err != nil {
					return nil, next, err
				}
				changes = append(changes, Change{secret(namespace, name, pair, ca.Cert), why})
			}
			if due := pki.RenewalOf(pair); next.IsZero() || due.Before(next) {
				next = due
			}
		}
	}
	return changes, next, nil
}

// readAuthority returns the authority of a Secret, or a new authority and the Secret for it. An unreadable authority
// is an error, because replacing it would disconnect every node.
func readAuthority(namespace, name string, before *corev1.Secret, now time.Time) (*pki.Authority, *Change, error) {
	if before != nil {
		a, err := pki.ReadAuthority(pairOf(before))
		return a, nil, wrap(err, "secret "+name)
	}
	a, err := pki.NewAuthority(name, now)
	if err != nil {
		return nil, nil, err
	}
	return a, &Change{secret(namespace, name, a.Pair, nil), "the Secret does not exist"}, nil
}

// Authority parses the authority in a Secret.
func Authority(s *corev1.Secret) (*pki.Authority, error) {
	a, err := pki.ReadAuthority(pairOf(s))
	return a, wrap(err, "secret "+s.Name)
}

func secret(namespace, name string, pair pki.Pair, ca []byte) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "weft"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSPrivateKeyKey: pair.Key, corev1.TLSCertKey: pair.Cert},
	}
	if ca != nil {
		s.Data[caKey] = ca
	}
	return s
}

func pairOf(s *corev1.Secret) pki.Pair {
	return pki.Pair{Cert: dataOf(s, corev1.TLSCertKey), Key: dataOf(s, corev1.TLSPrivateKeyKey)}
}

func dataOf(s *corev1.Secret, key string) []byte {
	if s == nil {
		return nil
	}
	return s.Data[key]
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// SecretNames returns the names of all Secrets that Keys manages.
func SecretNames() []string {
	var names []string
	for _, a := range authorities {
		names = append(append(names, a.secret), slices.Sorted(maps.Keys(a.pairs))...)
	}
	return names
}
