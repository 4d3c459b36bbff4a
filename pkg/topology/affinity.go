package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// Why clients are not remembered: OVN can learn who called whom (affinity_timeout), but drops the packet that it learns from, and all of its
// connection that come before an answer (OVN 25.03): the first connection of each client would wait until it gives up. So the backend follows from
// the client's address. Open vSwitch takes the place in the list with the highest of the hashes of place and address.

// places is how long the list of a service with affinity is: a prime, so that each backend's steps lead to all places.
const places = 127

// mostPlaced is for how many backends places are enough that each has about as many as another.
const mostPlaced = places / 2

// placed repeats backends until all places are taken, so that each has its places whoever else comes or goes, and a client its backend, but for a
// few (the table of Maglev: Eisenbud and others, NSDI 2016). What is more than mostPlaced stays as it is: any change moves clients.
func placed(backends []string) []string {
	if len(backends) < 2 || len(backends) > mostPlaced {
		return backends
	}
	table, wishes := make([]string, places), make([]wish, len(backends))
	for i, backend := range backends {
		wishes[i] = wishOf(backend)
	}
	for taken := 0; ; {
		for i, backend := range backends {
			for table[wishes[i].place] != "" {
				wishes[i].next()
			}
			table[wishes[i].place] = backend
			if taken++; taken == places {
				return table
			}
		}
	}
}

// wish is the place that a backend would like next.
type wish struct{ place, step int }

func wishOf(backend string) wish {
	sum := sha256.Sum256([]byte(backend))
	return wish{place: int(binary.BigEndian.Uint64(sum[:]) % places), step: 1 + int(binary.BigEndian.Uint64(sum[8:])%(places-1))}
}

func (w *wish) next() { w.place = (w.place + w.step) % places }
