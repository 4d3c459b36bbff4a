package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weft-network/weft/controllers"
	"github.com/weft-network/weft/pkg/options"
	"github.com/weft-network/weft/pkg/ovndb"
	"github.com/weft-network/weft/pkg/rollout"
	"github.com/weft-network/weft/pkg/version"
)

// terminationLog is what kubelet takes into the pod's status when the container has ended.
const terminationLog = "/dev/termination-log"

// runPreflight is "weft preflight", with the operator's options: it says what an operator of this version would change in the northbound database. Each
// change is a line of its output, and the sum is left in the pod's status, for package rollout.
func runPreflight(args []string) error {
	o, err := options.ParseOperator(args)
	if err != nil {
		return err
	}
	changes, rows, err := preflight(o)
	for _, c := range changes {
		fmt.Println(c.Owner, c.Op, c.Table, c.UUID, c.Name, c.Columns)
	}
	said := summary(changes, rows)
	if err != nil {
		said.Error = err.Error()
	}
	text, failed := json.Marshal(said)
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
	o.LeaderElection = false // the operator of before leads
	mgr, err := newManager(controllers.WithoutWrites(config), o)
	if err != nil {
		return nil, 0, err
	}
	return controllers.Preflight(ctrl.SetupSignalHandler(), mgr, controllers.Options{Northbound: o.Northbound, TLS: ovndb.TLS(o.TLS), CountDelay: controllers.CountDelay,
		ResolvConf: o.ResolvConf, Namespace: o.Namespace, Version: version.String()})
}

// summary counts rows. One in which several things change is one.
func summary(changes []ovndb.Change, rows int) rollout.Difference {
	said := rollout.Difference{Rows: rows, Inserts: map[string]int{}, Updates: map[string]int{}, Deletes: map[string]int{}}
	counted := map[string]bool{}
	for _, whole := range []bool{true, false} { // a row that comes or goes is none that changes
		for _, c := range changes {
			if whole != (c.Op == ovndb.OpInsert || c.Op == ovndb.OpDelete) || counted[c.Table+c.UUID] {
				continue
			}
			counted[c.Table+c.UUID] = true
			switch c.Op {
			case ovndb.OpInsert:
				said.Inserts[c.Table]++
			case ovndb.OpDelete:
				said.Deletes[c.Table]++
			default:
				said.Updates[c.Table]++
			}
		}
	}
	return said
}
