package topology_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/ovndb/ovndbtest"
	"github.com/weft-network/weft/pkg/trace"
	"github.com/weft-network/weft/pkg/trace/tracer"
)

// recorded are the questions whose packets pkg/trace replays.
var recorded = []string{"delivered", "denied", "egressip"}

// TestQuestionsInZones loads the rows of two zones into two pairs of databases, each with an ovn-northd, and traces questions through
// both. With -update it records the traces for the tests of pkg/trace.
func TestQuestionsInZones(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/zones/trace.txtar")
	if err != nil {
		t.Fatal(err)
	}
	g := golden{archive: archive}
	databases := map[networkv1alpha1.ZoneName]trace.Tracer{}
	for _, zone := range []networkv1alpha1.ZoneName{"east", ""} {
		central := ovndbtest.StartCentral(t)
		e := engine(t, central.NB)
		of := golden{archive: archive}
		of.units, of.ways = build(t, g.file("objects.yaml"), zone)
		for _, u := range of.units {
			settle(t, e, u)
		}
		central.Sync()
		databases[zone] = tracer.Tracer{Northbound: socketOf(central.NB), Southbound: socketOf(central.SB),
			Program: ovndbtest.Binary(t, "ovn-trace"), Dir: filepath.Dir(socketOf(central.SB))}
		g.units, g.ways = append(g.units, of.units...), of.ways
	}
	r := newReader(t, g)
	for _, line := range lines(g.file("questions.txt")) {
		name, question, _ := strings.Cut(line, ": ")
		record := recorder{databases: databases, archive: &txtar.Archive{Comment: []byte(question + "\n")}}
		r.checkQuestion(trace.Zones(record.in), question)
		if *update && slices.Contains(recorded, name) {
			record.write(t, name)
		}
	}
}

// recorder keeps the packets of a question with their traces.
type recorder struct {
	databases map[networkv1alpha1.ZoneName]trace.Tracer
	archive   *txtar.Archive
}

// in implements trace.Zones.
func (r *recorder) in(_ context.Context, zone networkv1alpha1.ZoneName) (trace.Tracer, error) {
	return recording{r, zone}, nil
}

type recording struct {
	*recorder
	zone networkv1alpha1.ZoneName
}

// Run implements trace.Tracer.
func (r recording) Run(ctx context.Context, request trace.Request) (trace.Answer, error) {
	answer, err := r.databases[r.zone].Run(ctx, request)
	for i, traced := range answer.Traces {
		packet, _ := json.Marshal(request.Packets[i])
		text := traced.Text
		traced.Text = ""
		rest, _ := json.MarshalIndent(traced, "", " ")
		start := strconv.Itoa(len(r.archive.Files)/3) + " " + string(r.zone)
		r.archive.Files = append(r.archive.Files, txtar.File{Name: start + " packet", Data: append(packet, '\n')},
			txtar.File{Name: start + " rest", Data: append(rest, '\n')}, txtar.File{Name: start + " text", Data: []byte(text)})
	}
	return answer, err
}

func (r *recorder) write(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("..", "trace", "testdata", "zones", name+".txtar")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, txtar.Format(r.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
