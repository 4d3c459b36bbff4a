//go:build e2e

package cni

import (
	"time"
)

// stageNames are the stages of weft_cni_stage_seconds, in order.
var stageNames = []string{"node", "address", "link", "port", "interface", "binding", "flows"}

// stages collects the duration of each stage of single ADDs from the differences of the histogram's sums.
type stages struct {
	b      *bench
	before map[string]float64
	byName map[string][]time.Duration // stage -> its times; binding has none if the agent saw the flows first
}

func newStages(b *bench) *stages {
	s := &stages{b: b, byName: map[string][]time.Duration{}}
	s.before = s.read()
	return s
}

func (s *stages) read() map[string]float64 {
	s.b.t.Helper()
	samples, err := s.b.Metrics(s.b.t.Context(), s.b.agent)
	must(s.b.t, err)
	return samples
}

// one must be called after each ADD.
func (s *stages) one() {
	s.b.t.Helper()
	now := s.read()
	for _, name := range stageNames {
		sum, count := `weft_cni_stage_seconds_sum{stage="`+name+`"}`, `weft_cni_stage_seconds_count{stage="`+name+`"}`
		if now[count] > s.before[count] {
			s.byName[name] = append(s.byName[name], time.Duration((now[sum]-s.before[sum])*float64(time.Second)))
		}
	}
	s.before = now
}

func (s *stages) series() (all []series) {
	for _, name := range stageNames {
		all = append(all, series{name, s.byName[name]})
	}
	return all
}
