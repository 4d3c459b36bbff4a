package ovndb_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-network/weft/pkg/ovn/nbdb"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/unit"
)

// tap sits in front of a server and records how many address sets each transaction selects by their UUID.
type tap struct {
	endpoint string
	mu       sync.Mutex
	selected []int
}

func startTap(t *testing.T, server *ovndbtest.Server) *tap {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "tap"))
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{endpoint: "unix:" + listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", strings.TrimPrefix(server.Endpoint(), "unix:"))
			if err != nil {
				from.Close()
				continue
			}
			all.Go(func() { defer from.Close(); _, _ = io.Copy(from, to) })
			all.Go(func() { defer to.Close(); tp.listen(io.TeeReader(from, to)) })
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return tp
}

func (tp *tap) listen(requests io.Reader) {
	for decoder := json.NewDecoder(requests); ; {
		var request struct {
			Method string
			Params []json.RawMessage
		}
		if decoder.Decode(&request) != nil {
			return
		}
		n := 0
		for _, param := range request.Params {
			var op struct {
				Op, Table string
				Where     []any
			}
			if json.Unmarshal(param, &op) == nil && op.Op == "select" && op.Table == nbdb.AddressSetTable && len(op.Where) > 0 {
				n++
			}
		}
		if n > 0 {
			tp.mu.Lock()
			tp.selected = append(tp.selected, n)
			tp.mu.Unlock()
		}
	}
}

// An audit reads a bounded part of the database at a time and covers all of it in the end, so changes to any of the
// sets are repaired.
func TestAuditGoesInSteps(t *testing.T) {
	const sets, addresses = 10, 200
	nb := ovndbtest.Start(t, "ovn-nb")
	tp := startTap(t, nb)
	e := runWith(t, ovndb.Config{Endpoints: []string{tp.endpoint}, Audit: 100 * time.Millisecond})
	for i := range sets {
		ref := unit.Ref{Table: nbdb.AddressSetTable, UUID: unit.UUID(nbdb.AddressSetTable, fmt.Sprint("s", i))}
		u := unit.Unit{Key: unit.NewKey("set", fmt.Sprint(i)),
			Rows: []unit.Row{{Model: &nbdb.AddressSet{UUID: ref.UUID, Name: fmt.Sprint("s", i)}}}}
		for j := range addresses {
			u.Members = append(u.Members, unit.Membership{Parent: ref, Column: "addresses", Element: fmt.Sprintf("10.0.%d.%d", i, j)})
		}
		e.apply(t, u)
	}
	before := e.counter.count()
	for i := range sets {
		nb.Ctl("remove", "Address_Set", fmt.Sprint("s", i), "addresses", fmt.Sprintf("10.0.%d.7", i))
	}
	e.await(t, "the repair of all", func() bool {
		return e.counter.count() > before && strings.Count(nb.Ctl("--columns=addresses", "list", "Address_Set"), `.7"`) == sets
	})
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if most := slices.Max(tp.selected); most > 5 { // four are 804 rows and elements, the fifth exceeds 1,000
		t.Errorf("a step of the audit reads %d sets of %d addresses", most, addresses)
	}
	total := 0
	for _, n := range tp.selected {
		total += n
	}
	if total < sets {
		t.Errorf("the audits read %d of %d sets", total, sets)
	}
}
