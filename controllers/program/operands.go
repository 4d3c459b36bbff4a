package program

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/weft-network/weft/controllers/campaign"
	"github.com/weft-network/weft/controllers/operand"
	"github.com/weft-network/weft/pkg/install/programs"
	"github.com/weft-network/weft/pkg/install/render"
	"github.com/weft-network/weft/pkg/process/leadership"
	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
)

// operandsContainer is the name of this program's container in its pod.
const operandsContainer = "operands"

// Operands is "weft operands". It installs OVN's databases, Open vSwitch, the operator of the network and the agents.
func Operands(args []string) error {
	o, err := options.ParseOperands(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	ctrl.Log.Info("starting operands", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := checkAPIServer(ctx, config, o.Namespace, os.Getenv("KUBERNETES_PORT")); err != nil {
		return err
	}
	managerOptions, err := operand.ManagerOptions(o)
	if err != nil {
		return err
	}
	here, err := programs.Read(programs.File)
	if err != nil {
		return err
	}
	facts := render.Facts{Namespace: o.Namespace, Image: o.Image, APIServerHost: o.APIServerHost,
		APIServerPort: o.APIServerPort, Version: version.String(), Programs: here}
	if facts.Image == "" {
		reader, err := client.New(config, client.Options{Scheme: managerOptions.Scheme})
		if err != nil {
			return err
		}
		if err := asThisPod(ctx, reader, o, &facts); err != nil {
			return err
		}
	}
	process, err := leadership.New(config, managerOptions, leaseIf(o.LeaderElection, operand.Lease(o)), ctrl.Log.WithName("lease"))
	if err != nil {
		return err
	}
	lead := func(ctx context.Context) error {
		return process.Lead(ctx, func(mgr ctrl.Manager) (func(error), error) {
			return func(error) {}, operand.Setup(mgr, operand.Options{Facts: facts, Now: time.Now, Patience: o.RolloutPatience,
				OperatorCondition: o.OperatorCondition})
		})
	}
	return together(ctx, lead, process.Run, serveMetrics(config, o.Metrics),
		func(ctx context.Context) error {
			return campaign.ServeHealth(ctx, o.Health, "process", healthz.Ping, healthz.Ping)
		})
}

// asThisPod takes image and pull secrets from this process's own pod, so that they are configured in one place.
func asThisPod(ctx context.Context, reader client.Reader, o options.Operands, facts *render.Facts) error {
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: o.Pod}, pod); err != nil {
		return fmt.Errorf("this pod: %w", err)
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == operandsContainer {
			facts.Image, facts.PullSecrets = c.Image, pod.Spec.ImagePullSecrets
			return nil
		}
	}
	return fmt.Errorf("pod %s/%s has no container %s", o.Namespace, o.Pod, operandsContainer)
}
