package ui

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-network/weft/pkg/trace/sketch"
)

//go:embed web
var web embed.FS

// Cluster is what the page shows. Its functions run with the user's rights.
type Cluster struct {
	// Name names the cluster for people, and Version is the version of the plugin.
	Name, Version string
	API           client.WithWatch
	// Status returns the answer of "kubectl weft status".
	Status func(context.Context) (any, error)
	// Trace returns the answer of "kubectl weft trace" and its picture.
	Trace func(context.Context, TraceRequest) (Pictured, error)
	// Topology returns the picture of "kubectl weft topology". Without an object, it is an overview.
	Topology func(ctx context.Context, object string) (string, error)
	// Why returns the answer of "kubectl weft why".
	Why func(ctx context.Context, pod string) (any, error)
	// Explain replaces the text of errors that do not explain themselves.
	Explain func(error) error
}

// TraceRequest is the form of a trace. Its fields are the arguments and flags of "kubectl weft trace".
type TraceRequest struct {
	From, To, Protocol, Port, Family, Node string
	AllBackends                            bool
}

// Pictured is an answer and its picture.
type Pictured struct {
	Answer any `json:"answer"`
	// Picture is SVG.
	Picture string `json:"picture"`
}

// Server serves the page.
type Server struct {
	cluster Cluster
	gate    *gate
	hub     *hub
	feeds   []*feed
}

// New returns a server. announce is called with the URL of each further link, because a link is good for one browser.
func New(cluster Cluster, address net.Addr, announce func(link string)) *Server {
	s := &Server{cluster: cluster, hub: newHub(time.Now)}
	s.gate = newGate(func(token string) { announce(linkOf(address, token)) })
	s.feeds = newFeeds(s.hub)
	return s
}

// Link returns the URL with the present token. The token is in the fragment, which browsers do not send.
func (s *Server) Link(address net.Addr) string {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return linkOf(address, s.gate.token)
}

func linkOf(address net.Addr, token string) string {
	return "http://" + address.String() + "/#token=" + token
}

// Serve serves the page until ctx ends, and returns when nothing follows the cluster any more. The listener must be on
// the loopback interface.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	for _, f := range s.feeds {
		following.Go(func() { f.follow(ctx, s.cluster) })
	}
	following.Go(func() { s.hub.followHealth(ctx, s.cluster) })
	server := &http.Server{Handler: s.Handler(listener.Addr()), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // streams would delay a shutdown without end
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler returns the handler of a server at an address. The files of the page are public: they show nothing of the
// cluster. Everything else needs a key.
func (s *Server) Handler(address net.Addr) http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /zoom.js", text("text/javascript", sketch.ZoomScript))
	mux.HandleFunc("GET /picture.css", text("text/css", sketch.PictureStyle))
	mux.HandleFunc("POST /api/session", s.session)
	mux.HandleFunc("GET /api/changes", s.gate.keyed(s.changes))
	mux.HandleFunc("GET /api/topology", s.gate.keyed(s.topology))
	mux.HandleFunc("GET /api/trace", s.gate.keyed(s.trace))
	mux.HandleFunc("GET /api/why", s.gate.keyed(s.why))
	mux.HandleFunc("GET /api/reach", s.gate.keyed(s.reach))
	mux.HandleFunc("GET /api/around", s.gate.keyed(s.around))
	return guard(hostsOf(address), mux)
}

func text(kind, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		_, _ = w.Write([]byte(content)) // a browser that has gone needs no answer
	}
}

// maxSession is the largest request for a key, in bytes.
const maxSession = 1 << 10

// session exchanges the token of a link against a key.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSession)).Decode(&request); err != nil {
		fail(w, http.StatusBadRequest, "want {\"token\": ...}")
		return
	}
	key, ok := s.gate.enter(request.Token)
	if !ok {
		fail(w, http.StatusUnauthorized, "the link was used already, or is of another run: kubectl weft ui has printed another")
		return
	}
	answer(w, http.StatusOK, map[string]string{"key": key, "cluster": s.cluster.Name, "version": s.cluster.Version})
}

func (s *Server) topology(w http.ResponseWriter, r *http.Request) {
	picture, err := s.cluster.Topology(r.Context(), r.FormValue("object"))
	s.answerOr(w, map[string]string{"picture": picture}, err)
}

func (s *Server) trace(w http.ResponseWriter, r *http.Request) {
	found, err := s.cluster.Trace(r.Context(), TraceRequest{From: r.FormValue("from"), To: r.FormValue("to"),
		Protocol: r.FormValue("protocol"), Port: r.FormValue("port"), Family: r.FormValue("family"), Node: r.FormValue("node"),
		AllBackends: r.FormValue("allBackends") == "true"})
	s.answerOr(w, found, err)
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	found, err := s.cluster.Why(r.Context(), r.FormValue("pod"))
	s.answerOr(w, found, err)
}
