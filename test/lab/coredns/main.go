// Command coredns is CoreDNS with only the plugins that a cluster and Kubernetes' tests need. All plugins would take
// three times as long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

// init names the plugins in the order in which a query passes them.
func init() {
	dnsserver.Directives = []string{"health", "ready", "errors", "log", "cache", "loadbalance", "hosts", "kubernetes"}
}

func main() { coremain.Run() }
