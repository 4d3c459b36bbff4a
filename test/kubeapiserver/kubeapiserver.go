// Package kubeapiserver runs tests with a real API server and etcd. Both end with the process, whatever fails.
//
//	func TestMain(m *testing.M) { kubeapiserver.Main(m, kubeapiserver.Options{Definitions: true}, prepare) }
package kubeapiserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/weft-network/weft/test/isolation"
	"github.com/weft-network/weft/test/lab/tools"
	"github.com/weft-network/weft/test/longwatch"
)

// Options are what an API server serves, and how.
type Options struct {
	// Definitions has the kinds served that Weft defines, and other projects' kinds that it reads.
	Definitions bool
	// More are files or folders of further CustomResourceDefinitions.
	More []string
	// Flags are arguments of kube-apiserver by name, without dashes.
	Flags map[string]string
}

// Server is a running API server.
type Server struct {
	// Config has all rights, and sends up to 1,000 requests a second.
	Config *rest.Config
	// Programs has kubectl of the same version.
	Programs tools.Cache

	environment *envtest.Environment
	folder      string // of kubeconfigs
}

// Main runs a package's tests with one API server, and ends the process. prepare runs before the tests; its context ends
// after them. Log lines are printed with -v.
func Main(m *testing.M, o Options, prepare func(context.Context, *Server) error) {
	flag.Parse()
	log := logr.Discard()
	if testing.Verbose() {
		log = zap.New(zap.UseDevMode(true))
	}
	ctrl.SetLogger(log)
	tests := func() int {
		code, err := run(m, o, prepare)
		if err != nil {
			fmt.Fprintln(os.Stderr, "before or after the tests:", err)
			return 1
		}
		return code
	}
	if os.Getuid() != 0 {
		os.Exit(tests())
	}
	os.Exit(isolation.Run(unix.CLONE_NEWPID|unix.CLONE_NEWNS, func() int {
		if err := isolation.OwnProcesses(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return tests()
	}))
}

func run(m *testing.M, o Options, prepare func(context.Context, *Server) error) (code int, err error) {
	s, err := Start(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := prepare(ctx, s); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// New starts an API server that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts etcd and an API server, which Stop ends. Without the programs that `make tools` gets, it fails.
func Start(o Options) (*Server, error) {
	programs, err := tools.DefaultCache()
	if err != nil {
		return nil, err
	}
	assets, err := programs.Envtest()
	if err != nil {
		return nil, err
	}
	s := &Server{Programs: programs, environment: &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: o.More,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 2 * time.Minute}} // seconds on an idle machine
	if o.Definitions {
		source, err := tools.SourceRoot()
		if err != nil {
			return nil, err
		}
		folder := filepath.Join(source, "config", "crd")
		s.environment.CRDDirectoryPaths = append(slices.Clone(o.More), filepath.Join(folder, "bases"), filepath.Join(folder, "external"))
	}
	if s.folder, err = os.MkdirTemp("", "weft-kubeconfig-"); err != nil {
		return nil, err
	}
	server := s.environment.ControlPlane.GetAPIServer().Configure()
	for name, value := range o.Flags {
		server.Set(name, value)
	}
	if s.Config, err = s.environment.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), s.Stop())
	}
	s.Config.QPS, s.Config.Burst = 1000, 1000
	return s, nil
}

// Stop ends the API server and etcd, and removes the kubeconfigs.
func (s *Server) Stop() error {
	err := os.RemoveAll(s.folder)
	if stopped := s.environment.Stop(); stopped != nil {
		err = errors.Join(err, fmt.Errorf("stop the API server: %w", stopped))
	}
	return err
}

// Kubeconfig adds a user and writes its kubeconfig to a file, which Stop removes. An administrator is in system:masters.
func (s *Server) Kubeconfig(user string, groups ...string) (file string, err error) {
	added, err := s.environment.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return "", fmt.Errorf("user %s: %w", user, err)
	}
	text, err := added.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("user %s: %w", user, err)
	}
	file = filepath.Join(s.folder, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	return file, os.WriteFile(file, text, 0o600)
}

// View starts a cache of kinds, which tests wait for, and returns when it has their objects. changed is called after each
// event, until ctx ends.
func View(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, changed func(), kinds ...client.Object) (cache.Cache, error) {
	view, err := cache.New(longwatch.Of(config), cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	}
	for _, kind := range kinds {
		informer, err := view.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	go func() { _ = view.Start(ctx) }()
	if !view.WaitForCacheSync(ctx) {
		return nil, errors.New("the API server's objects were not listed")
	}
	return view, nil
}
