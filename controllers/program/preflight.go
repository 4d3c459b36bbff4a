package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/install/rollout"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/process/logging"
	"github.com/weft-network/weft/pkg/process/options"
	"github.com/weft-network/weft/pkg/process/version"
)

// terminationLog is the file that kubelet copies into the pod's status when the container has ended.
const terminationLog = "/dev/termination-log"

// Preflight is "weft preflight", with the operator's options. It prints what an operator of this version would change
// in the northbound database, one change per line. The sum is left in the pod's status, for package rollout.
func Preflight(args []string) error {
	o, err := options.ParseOperator(args)
	if err != nil {
		return err
	}
	if err := logging.Start(o.Log); err != nil {
		return err
	}
	changes, rows, err := preflight(o)
	for _, c := range changes {
		fmt.Println(c.Owner, c.Op, c.Table, c.UUID, c.Name, c.Columns)
	}
	sum := summary(changes, rows)
	if err != nil {
		sum.Error = err.Error()
	}
	text, failed := json.Marshal(sum)
	if failed == nil {
		failed = os.WriteFile(terminationLog, text, 0o600)
	}
	return errors.Join(err, failed)
}

func preflight(o options.Operator) ([]ovndb.Change, int, error) {
	ctrl.Log.Info("preflight", "version", version.String())
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, 0, err
	}
	managerOptions, err := controllers.ManagerOptions() // without a lease, because the former operator leads
	if err != nil {
		return nil, 0, err
	}
	config.QPS, config.Burst = 200, 400
	if err := ensureDefinitions(context.Background(), config); err != nil {
		return nil, 0, err
	}
	mgr, err := ctrl.NewManager(controllers.WithoutWrites(config), managerOptions)
	if err != nil {
		return nil, 0, err
	}
	return controllers.Preflight(ctrl.SetupSignalHandler(), mgr,
		controllers.Options{Northbound: o.Northbound, TLS: ovndb.TLS(o.TLS), CountDelay: controllers.CountDelay,
			ResolvConf: o.ResolvConf, Namespace: o.Namespace, Version: version.String()})
}

// summary counts rows. A row with several changes counts once.
func summary(changes []ovndb.Change, rows int) rollout.Difference {
	sum := rollout.Difference{Rows: rows, Inserts: map[string]int{}, Updates: map[string]int{}, Deletes: map[string]int{}}
	counted := map[string]bool{}
	for _, whole := range []bool{true, false} { // an added or removed row does not also count as changed
		for _, c := range changes {
			if whole != (c.Op == ovndb.OpInsert || c.Op == ovndb.OpDelete) || counted[c.Table+c.UUID] {
				continue
			}
			counted[c.Table+c.UUID] = true
			switch c.Op {
			case ovndb.OpInsert:
				sum.Inserts[c.Table]++
			case ovndb.OpDelete:
				sum.Deletes[c.Table]++
			default:
				sum.Updates[c.Table]++
			}
		}
	}
	return sum
}
