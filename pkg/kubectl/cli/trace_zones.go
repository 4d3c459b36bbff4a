package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
	"github.com/weft-network/weft/pkg/process/admin"
	"github.com/weft-network/weft/pkg/trace"
)

// tracers are the tracers of a command. In a cluster with zones they are one for each zone that packets pass, found when a packet first
// enters the zone.
type tracers struct {
	cluster *cluster
	// only is the tracer of a cluster without zones. In a cluster with zones it is nil.
	only  *remoteTracer
	found map[networkv1alpha1.ZoneName]*remoteTracer
}

// findTracers returns the tracers of a cluster. zoned means that the cluster has zones.
func (c *cluster) findTracers(ctx context.Context, zoned bool) (t *tracers, err error) {
	t = &tracers{cluster: c, found: map[networkv1alpha1.ZoneName]*remoteTracer{}}
	if !zoned {
		t.only, err = c.findTracer(ctx)
	}
	return t, err
}

// all returns the Tracer of all packets.
func (t *tracers) all() trace.Tracer {
	if t.only != nil {
		return t.only
	}
	return trace.Zones(func(ctx context.Context, zone networkv1alpha1.ZoneName) (trace.Tracer, error) {
		tracer, err := t.in(ctx, zone)
		if err != nil {
			return nil, err
		}
		return tracer, nil
	})
}

// in returns the tracer of a zone. The error is an UnknownError if no pod of the zone's databases runs, or --zone names another zone.
func (t *tracers) in(ctx context.Context, zone networkv1alpha1.ZoneName) (*remoteTracer, error) {
	if only := t.cluster.zone; only != "" && only != string(zone) {
		return nil, &trace.UnknownError{Reason: "--zone " + only + " excludes its databases"}
	}
	if known := t.found[zone]; known != nil {
		return known, nil
	}
	tracer, err := t.cluster.in(zone).findTracer(ctx)
	if errors.Is(err, errNoDatabases) {
		return nil, &trace.UnknownError{Reason: err.Error()}
	}
	if err == nil {
		tracer.of, t.found[zone] = trace.ZoneText(zone), tracer
	}
	return tracer, err
}

// northdNotes are the notes about ovn-northd of each zone that packets passed.
func (t *tracers) northdNotes(ctx context.Context) (notes []string, err error) {
	if t.only != nil {
		return t.only.northdNotes(ctx)
	}
	for _, zone := range slices.Sorted(maps.Keys(t.found)) {
		of, err := t.found[zone].northdNotes(ctx)
		if err != nil {
			return nil, err
		}
		notes = append(notes, of...)
	}
	return notes, nil
}

// plannedZones traces in copies of the databases of each zone, to which the changes were applied that the zone's operator plans.
type plannedZones struct {
	*tracers
	stored []byte // the manifests as the API server would store them
	found  map[networkv1alpha1.ZoneName]trace.Tracer
	notes  []string
}

// in implements trace.Zones.
func (p *plannedZones) in(ctx context.Context, zone networkv1alpha1.ZoneName) (trace.Tracer, error) {
	if known := p.found[zone]; known != nil {
		return known, nil
	}
	live, err := p.tracers.in(ctx, zone)
	if err != nil {
		return nil, err
	}
	o, err := p.cluster.in(zone).findOperator(ctx)
	if errors.Is(err, errNoLeader) {
		return nil, &trace.UnknownError{Reason: "its operator cannot plan the manifests: " + err.Error()}
	} else if err != nil {
		return nil, err
	}
	planned, notes, err := operationsOf(ctx, o, live, bytes.NewReader(p.stored), " of "+trace.ZoneText(zone))
	if err == nil {
		p.found[zone] = planned
		p.addNotes(notes)
	}
	return planned, err
}

// addNotes adds the notes that no other zone's operator has given.
func (p *plannedZones) addNotes(notes []string) {
	for _, note := range notes {
		if !slices.Contains(p.notes, note) {
			p.notes = append(p.notes, note)
		}
	}
}

// operationsOf returns a tracer that answers as if the stored manifests were applied, and the notes of the operator's plan. of names the
// zone of the databases.
func operationsOf(ctx context.Context, o *operator, live trace.Tracer, stored *bytes.Reader, of string) (trace.Tracer, []string, error) {
	var answer admin.Operations
	if err := o.query(ctx, stored, &answer, "operations"); err != nil {
		return nil, nil, err
	}
	if len(answer.Operations) == 0 {
		return live, append(answer.Notes, "the manifests change nothing"+of+": this is the answer of the present state"), nil
	}
	return changedTracer{live, answer.Operations}, append(answer.Notes, fmt.Sprintf("as if the manifests were applied: %s in a copy of "+
		"the databases%s", several(len(answer.Operations), "operation"), of)), nil
}
