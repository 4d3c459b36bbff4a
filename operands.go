package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	operands "github.com/weft-network/weft/controllers/operand"
	"github.com/weft-network/weft/pkg/operand"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/programs"
	"github.com/weft-network/weft/pkg/version"
)

// operandsContainer is this program's in its pod.
const operandsContainer = "operands"

// runOperands is "weft operands": it makes OVN's databases, Open vSwitch, the operator of the network and the agents.
func runOperands(args []string) error {
	o, err := options.ParseOperands(args)
	if err != nil {
		return err
	}
	ctrl.Log.Info("starting operands", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	managerOptions, err := operands.ManagerOptions(config, o)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	here, err := programs.Read(programs.File)
	if err != nil {
		return err
	}
	facts := operand.Facts{Namespace: o.Namespace, Image: o.Image, APIServerHost: o.APIServerHost, APIServerPort: o.APIServerPort, Version: version.String(), Programs: here}
	if facts.Image == "" {
		if err := asThisPod(ctx, mgr.GetAPIReader(), o, &facts); err != nil {
			return err
		}
	}
	if err := operands.Setup(mgr, operands.Options{Facts: facts, Now: time.Now, Patience: o.RolloutPatience}); err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("process", healthz.Ping), mgr.AddReadyzCheck("process", healthz.Ping)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// asThisPod takes image and pull secrets from this process's own pod, so that there is one place to set them.
func asThisPod(ctx context.Context, reader client.Reader, o options.Operands, facts *operand.Facts) error {
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
