package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
)

// Kind is the kind of a check.
type Kind string

// Values of Kind.
const (
	Ping Kind = "ping"
	HTTP Kind = "http"
)

var kinds = [...]Kind{Ping, HTTP}

// Report is the content of demo.json. OK equals Pairs if every check succeeded.
type Report struct {
	Pairs   int      `json:"pairs"` // len(Results)
	OK      int      `json:"ok"`
	Results []Result `json:"results"`
}

// Result is one pair: an ordered pair of pods, a family and a kind.
type Result struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	FromNode string  `json:"fromNode"`
	ToNode   string  `json:"toNode"`
	SameNode bool    `json:"sameNode"`
	Family   Family  `json:"family"`
	Kind     Kind    `json:"kind"`
	Address  string  `json:"address"`
	OK       bool    `json:"ok"`
	RTTms    float64 `json:"rttMs,omitempty"` // of the successful try; for HTTP from connect to the end of the answer
	Tries    int     `json:"tries"`           // all but the last failed; 0: not called
	Error    string  `json:"error,omitempty"`
}

// expected returns all pairs, none of them called yet, so that missing answers count as failed.
func expected(pods []Pod) []Result {
	var all []Result
	for _, from := range pods {
		for _, to := range pods {
			if from.Name == to.Name {
				continue
			}
			all = append(all, checks(from, to)...)
		}
	}
	return all
}

func checks(from, to Pod) []Result {
	var all []Result
	for _, family := range families {
		r := Result{From: from.Name, To: to.Name, FromNode: from.Node, ToNode: to.Node, SameNode: from.Node == to.Node, Family: family}
		if address := to.address(family); address.IsValid() {
			r.Address, r.Error = address.String(), "not called"
		} else {
			r.Error = "the pod has no address of this family"
		}
		for _, kind := range kinds {
			r.Kind = kind
			all = append(all, r)
		}
	}
	return all
}

func newReport(results []Result) Report {
	r := Report{Pairs: len(results), Results: results}
	r.OK = r.Pairs - len(r.failed())
	return r
}

func (r Report) failed() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(result Result) bool { return result.OK })
}

// between returns the results from one pod to another, by family and kind.
func (r Report) between(from, to string) map[check]Result {
	found := map[check]Result{}
	for _, result := range r.Results {
		if result.From == from && result.To == to {
			found[check{result.Family, result.Kind}] = result
		}
	}
	return found
}

type check struct {
	family Family
	kind   Kind
}

// write replaces the file atomically.
func (r Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, append(text, '\n'), 0o644)
}
