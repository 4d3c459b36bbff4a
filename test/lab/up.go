package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-network/weft/test/lab/state"
)

// UpOptions selects what Up starts.
type UpOptions struct {
	Nodes       int  // 2 if zero
	WithoutWeft bool // no product: nodes register and stay NotReady, host-network pods run
	PlainLinks  bool // nodes have their addresses on eth0 and no br-ex; the product moves the link onto a bridge
	Bare        bool // as PlainLinks, and without OVN and Open vSwitch; the product brings both (dist/install.yaml)
	NotApplied  bool // import the product's image on the nodes but apply no objects; Install does
	NoWait      bool // do not wait for the nodes and the ClusterNetwork to be Ready
	ThroughNode bool // the API server reaches pods through the first node, for its proxies to pods and services
	// Release is the folder of a release whose image the nodes pull from a registry outside, and whose manifests are applied. If it is
	// empty, the image is built from the source and imported on the nodes.
	Release string
	DNS     bool // run CoreDNS at the address in kubelet's configuration; Up does not wait for it; ignored WithoutWeft
}

// withDNS reports whether to run CoreDNS, whose pods must reach the API server.
func (o UpOptions) withDNS() bool { return o.DNS && !o.WithoutWeft && !o.NotApplied }

// machines lists the nodes.
func (o UpOptions) machines() []Machine {
	nodes := nodeMachines(o.Nodes)
	for i := range nodes {
		nodes[i].Plain, nodes[i].Bare = o.PlainLinks || o.Bare, o.Bare
	}
	return nodes
}

// Up starts a lab. A lab whose start failed stays for inspection; Down removes it.
func (c *Cluster) Up(ctx context.Context, o UpOptions) error {
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	if o.Release != "" {
		var err error
		if o.Release, err = filepath.Abs(o.Release); err != nil {
			return err
		}
		if _, _, err := release(o.Release).image(); err != nil {
			return err
		}
	}
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		return fmt.Errorf("nodes: %d, want 1 to %d", o.Nodes, MaxNodes)
	}
	release, err := c.lock()
	if err != nil {
		return err
	}
	defer release()
	if err := c.checkHost(); err != nil {
		return err
	}
	s, err := c.loadState()
	if err != nil {
		return err
	}
	if !s.Empty() {
		return fmt.Errorf("lab %s is up, or was not removed: run down first", c.Name)
	}
	return (&bringUp{Cluster: c, options: o, state: s, start: time.Now(), nodes: o.machines()}).run(ctx)
}

// bringUp is one run of Up.
type bringUp struct {
	*Cluster
	options UpOptions
	state   *state.State
	nodes   []Machine
	start   time.Time

	mu       sync.Mutex // of archives
	archives []string
}

// run builds the images in parallel with everything else, because with a cold cache that takes longest.
func (u *bringUp) run(ctx context.Context) error {
	if err := errors.Join(u.removeDir(), os.MkdirAll(u.Dir, 0o755)); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return u.buildImages(groupCtx) })
	group.Go(func() error { return u.bootAll(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	steps := []step{{"images imported", u.importImages}, {"nodes registered", u.awaitNodes}}
	if u.options.Release != "" {
		steps = append(steps, step{"release pushed", func(ctx context.Context) error { return u.push(ctx, release(u.options.Release)) }})
	}
	if !u.options.WithoutWeft && !u.options.NotApplied {
		steps = append(steps, step{"product applied", func(ctx context.Context) error {
			return u.applyProduct(ctx, u.options.Bare, u.options.Release)
		}})
		if !u.options.NoWait {
			steps = append(steps, step{"nodes and network Ready", u.awaitReady})
		}
	}
	if u.options.withDNS() {
		steps = append(steps, step{"DNS applied", u.applyDNS})
	}
	return u.steps(ctx, append(steps, step{"default service account", u.awaitServiceAccount}))
}

type step struct {
	name string
	do   func(context.Context) error
}

func (u *bringUp) steps(ctx context.Context, steps []step) error {
	for _, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		u.say(s.name, began)
	}
	return nil
}

// say prints a step with the time since the start and its own duration.
func (u *bringUp) say(name string, began time.Time) {
	fmt.Fprintf(u.out, "%7.1fs  %-28s %6.1fs\n", time.Since(u.start).Seconds(), name, time.Since(began).Seconds())
}

func (u *bringUp) bootAll(ctx context.Context) error {
	return u.steps(ctx, []step{
		{"init built", func(ctx context.Context) error {
			return errors.Join(goBuild(ctx, module+"/test/lab/cmd/lab-init", u.initProgram()),
				goBuild(ctx, module+"/test/lab/cmd/lab-connect", u.connectProgram()))
		}},
		{"registry built", u.buildRegistry},
		{"record and certificates", func(context.Context) error {
			return errors.Join(u.state.SetNodes(u.options.Nodes), u.state.SetBare(u.options.Bare), u.makePKI(u.nodes))
		}},
		{"network", func(context.Context) error { return u.makeNetwork(u.state, u.nodes) }},
		{"control groups", func(context.Context) error { return u.makeCgroups(u.state, u.nodes) }},
		{"machines started", func(context.Context) error { return u.startAll() }},
		{"control plane", func(context.Context) error { return u.awaitBoot(ControlPlane().Name) }},
		{"nodes and outside booted", func(context.Context) error { return u.awaitOthersBoot() }},
	})
}

func (u *bringUp) startAll() error {
	control := u.controlPlaneSpec(u.options.Bare)
	if u.options.ThroughNode {
		control = u.throughNode(control)
	}
	if err := u.boot(u.state, ControlPlane(), control); err != nil {
		return err
	}
	for i, n := range u.nodes {
		spec := u.nodeSpec(n, !u.options.WithoutWeft)
		if r := release(u.options.Release); r != "" {
			file, err := u.pullsFrom(r)
			if err != nil {
				return err
			}
			spec.Files = append(spec.Files, file)
		}
		if i == 0 && u.options.ThroughNode {
			spec.Steps = append(spec.Steps, u.connects())
		}
		if err := u.boot(u.state, n, spec); err != nil {
			return err
		}
	}
	for _, m := range outside() {
		spec := u.baseSpec(m)
		if u.options.Release != "" && m.Name == Outside().Name { // no other of these machines runs a daemon
			spec.Steps = append(spec.Steps, u.registry())
		}
		if err := u.boot(u.state, m, spec); err != nil {
			return err
		}
	}
	return nil
}

func (u *bringUp) awaitOthersBoot() error {
	var group errgroup.Group
	for _, m := range machines(u.options.Nodes)[1:] {
		group.Go(func() error { return u.awaitBoot(m.Name) })
	}
	return group.Wait()
}

func (u *bringUp) buildImages(ctx context.Context) error {
	images := labImages()
	if !u.options.WithoutWeft && u.options.Release == "" {
		programs, err := productPrograms()
		if err != nil {
			return err
		}
		images[ProductRef] = programs
	}
	if u.options.withDNS() {
		images[DNSRef] = dnsPrograms()
	}
	began := time.Now()
	for ref, programs := range images {
		archive, err := u.buildImage(ctx, ref, programs, nil)
		if err != nil {
			return err
		}
		u.mu.Lock()
		u.archives = append(u.archives, archive)
		u.mu.Unlock()
	}
	u.say("images built", began)
	return nil
}

func (u *bringUp) importImages(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, archive := range u.archives {
		group.Go(func() error { return u.importImage(ctx, u.nodes, archive) })
	}
	return group.Wait()
}

// awaitServiceAccount waits for the default service account, without which bare pods are refused.
func (u *bringUp) awaitServiceAccount(ctx context.Context) error {
	_, err := u.Kubectl(ctx, "wait", "--for=create", "--timeout=60s", "serviceaccount/default")
	return err
}

// awaitNodes waits for the Node objects, which kubelets create.
func (u *bringUp) awaitNodes(ctx context.Context) error {
	args := []string{"wait", "--for=create", "--timeout=120s"}
	for _, n := range u.nodes {
		args = append(args, "node/"+n.Name)
	}
	_, err := u.Kubectl(ctx, args...)
	return err
}

func (u *bringUp) awaitReady(ctx context.Context) error {
	for _, what := range [][]string{{"node", "--all"}, {"clusternetwork/default"}} {
		args := append([]string{"wait", "--for=condition=Ready", "--timeout=300s"}, what...)
		if _, err := u.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
