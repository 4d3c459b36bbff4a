package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// round is one way in which a sandbox lives and ends. The pod may be gone afterwards.
type round struct {
	name string
	do   func(*worker, context.Context) error
}

// rounds are drawn with equal probability; the plain round is listed more than once.
func rounds() []round {
	return []round{
		{"ADD, DEL", (*worker).plain},
		{"ADD, DEL", (*worker).plain},
		{"ADD, DEL", (*worker).plain},
		{"ADD twice for one sandbox", (*worker).twiceAdded},
		{"ADD, DEL, DEL", (*worker).twiceDeleted},
		{"a newer sandbox, then the older's DEL", (*worker).newer},
		{"two sandboxes' ADDs at once", (*worker).race},
		{"plugin killed during ADD", (*worker).abandoned},
		{"namespace vanished before DEL", (*worker).vanished},
		{"namespace vanished, DEL without its path", (*worker).pathless},
		{"namespace vanished before ADD", (*worker).void},
		{"DEL without ADD", (*worker).unknown},
		{"pod deleted before DEL", (*worker).orphaned},
	}
}

func (w *worker) oneRound(ctx context.Context) error {
	all := rounds()
	r := all[w.rng.IntN(len(all))]
	w.account.count("round: " + r.name)
	if err := r.do(w, ctx); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

func (w *worker) plain(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	return w.end(ctx, b)
}

func (w *worker) twiceAdded(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	_, err = w.add(ctx, b)
	return errors.Join(err, w.end(ctx, b))
}

func (w *worker) twiceDeleted(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	return errors.Join(w.del(ctx, b, b.call("DEL")), w.end(ctx, b))
}

// newer deletes the first sandbox late, after kubelet has given it up. The second sandbox must stay.
func (w *worker) newer(ctx context.Context) error {
	older, err := w.attach(ctx)
	if err != nil {
		return err
	}
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	if err := w.end(ctx, older); err != nil {
		return err
	}
	check := b.call("CHECK")
	check.Config = strings.TrimSuffix(config, "}") + `,"prevResult":` + w.result + "}"
	start := time.Now()
	ends, err := w.sandboxes.Call(ctx, check)
	if err != nil {
		return err
	}
	if ends[0].Exit != 0 {
		w.blame(start, "CHECK", b, ends[0])
	}
	return w.end(ctx, b)
}

// race runs two sandboxes' ADDs at once. One of them may fail, but not both.
func (w *worker) race(ctx context.Context) error {
	a, err := w.newBox(ctx)
	if err != nil {
		return err
	}
	b, err := w.newBox(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	ends, err := w.sandboxes.Call(ctx, a.call("ADD"), b.call("ADD"))
	if err != nil {
		return err
	}
	w.account.added()
	w.account.added()
	if ends[0].Exit != 0 && ends[1].Exit != 0 {
		w.blame(start, "ADD", a, ends[0])
		w.blame(start, "ADD", b, ends[1])
	}
	return errors.Join(w.end(ctx, a), w.end(ctx, b))
}

// abandoned kills the plugin at a random moment of ADD.
func (w *worker) abandoned(ctx context.Context) error {
	b, err := w.newBox(ctx)
	if err != nil {
		return err
	}
	call := b.call("ADD")
	call.KillAfter = time.Duration(1+w.rng.IntN(60)) * time.Millisecond
	if _, err := w.sandboxes.Call(ctx, call); err != nil {
		return err
	}
	w.account.added()
	return w.end(ctx, b)
}

func (w *worker) vanished(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	return errors.Join(w.sandboxes.Destroy(ctx, b.name), w.del(ctx, b, b.call("DEL")))
}

func (w *worker) pathless(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	call := b.call("DEL")
	call.NetNS = ""
	return errors.Join(w.sandboxes.Destroy(ctx, b.name), w.del(ctx, b, call))
}

// void removes the namespace before ADD, which must fail and leave nothing.
func (w *worker) void(ctx context.Context) error {
	b, err := w.newBox(ctx)
	if err != nil {
		return err
	}
	if err := w.sandboxes.Destroy(ctx, b.name); err != nil {
		return err
	}
	ends, err := w.sandboxes.Call(ctx, b.call("ADD"))
	if err != nil {
		return err
	}
	w.account.added()
	if ends[0].Exit == 0 {
		w.account.fail(fmt.Errorf("ADD succeeded in a removed namespace: %s", ends[0].Output))
	}
	return w.del(ctx, b, b.call("DEL"))
}

func (w *worker) unknown(ctx context.Context) error {
	b, err := w.newBox(ctx)
	if err != nil {
		return err
	}
	return w.end(ctx, b)
}

// orphaned deletes the pod first and its sandbox afterwards. Another pod with the same name follows.
func (w *worker) orphaned(ctx context.Context) error {
	b, err := w.attach(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(w.deletePod(ctx), w.end(ctx, b)); err != nil {
		return err
	}
	w.pod = w.bed.Parked(w.pod.Name, w.Node)
	return w.bed.API.Create(ctx, w.pod)
}
