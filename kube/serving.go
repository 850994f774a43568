package kube

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/kube/names"
)

// Connect makes the configuration of a client: that of a pod where inCluster says so, else
// the one that kubectl would use; file and context may be empty.
func Connect(inCluster bool, file, kubeContext string) (cfg *rest.Config, cluster string, err error) {
	if inCluster {
		cfg, err = rest.InClusterConfig()
		return cfg, "kubernetes", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	if cfg, err = loader.ClientConfig(); err != nil {
		return nil, "", err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", err
	}
	if kubeContext == "" {
		kubeContext = raw.CurrentContext
	}
	cluster = "kubernetes"
	if c := raw.Contexts[kubeContext]; c != nil && c.Cluster != "" {
		cluster = c.Cluster
	}
	return cfg, cluster, nil
}

// Client makes a client that speaks protobuf and is not held back by a limit of its own:
// the server has one.
func Client(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.UserAgent = "norn-kube"
	return kubernetes.NewForConfig(cfg)
}

// Dynamic makes a client for kinds of objects that not every cluster has.
func Dynamic(cfg *rest.Config) (dynamic.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	cfg.UserAgent = "norn-kube"
	return dynamic.NewForConfig(cfg)
}

// Doors are addresses of the network at which a Norn answers; those that are empty are closed.
type Doors struct {
	Health string // signs of life for a kubelet, also while another Norn leads
	API    string // the API of Norn, over TLS, for those who have a token of the cluster
}

// open serves the API over TLS at an address. The certificate is made anew each time, and told
// in an annotation of the Lease.
func open(ctx context.Context, d *Daemon, e *Election, addr string, api *server.Config) error {
	cert, key, err := certificate(e.Namespace)
	if err != nil {
		return err
	}
	tcp := &server.TCP{Addr: addr, Cert: filepath.Join(d.opt.State, "tls.crt"), Key: filepath.Join(d.opt.State, "tls.key")}
	if err := errors.Join(os.WriteFile(tcp.Cert, cert, 0o600), os.WriteFile(tcp.Key, key, 0o600)); err != nil {
		return err
	}
	if err := e.note(ctx, names.Certificate, string(cert)); err != nil {
		return err
	}
	g := NewGate(d, d.opt.Client)
	tcp.Authenticate = g.Authenticate
	api.Backend, api.TCP = g, tcp
	return nil
}

// Serve leads a cluster, as soon as no other Norn does, and serves the API of Norn until the
// context ends. When it comes to lead no more, as without the API server, or finds that
// another one has decided since, it begins anew, with what the API tells then.
func Serve(ctx context.Context, e *Election, opt Options, api server.Config, doors Doors) error {
	h := &health{}
	if doors.Health != "" {
		wait, err := h.serve(ctx, doors.Health)
		if err != nil {
			return err
		}
		defer wait()
	}
	if api.Socket != "" {
		if err := os.MkdirAll(filepath.Dir(api.Socket), 0o700); err != nil {
			return err
		}
	}
	for {
		lost := false
		err := e.Lead(ctx, func(leading context.Context, origin time.Time, leads func() bool) error {
			opt.Origin, opt.Leads, opt.Timeout = origin, leads, e.slack()
			err := serve(ctx, leading, e, opt, api, doors, h)
			if lost = ctx.Err() == nil && (leading.Err() != nil || errors.Is(err, errOvertaken)); lost {
				logger(opt.Log).Warn("norn does not lead any more, and waits to lead again", "error", err)
				return nil
			}
			return err
		})
		if err != nil || !lost {
			return err
		}
	}
}

// finish is how long what was decided is still written when a Norn is to end.
const finish = 10 * time.Second

// serve schedules and serves the API as long as this process leads, and until it is to end.
// When it leads no more it writes nothing more.
func serve(ctx, leading context.Context, e *Election, opt Options, api server.Config, doors Doors, h *health) error {
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(leading, func() {
		if ctx.Err() == nil {
			end()
			return
		}
		time.AfterFunc(finish, end) // it holds the Lease until it has written what was decided
	})()
	d, err := Open(writing, opt)
	if err != nil {
		return err
	}
	defer d.Close()
	api.Backend = d
	if doors.API != "" {
		if err := open(leading, d, e, doors.API, &api); err != nil {
			return err
		}
	}
	srv, err := server.New(api)
	if err != nil {
		return err
	}
	leading, stop := context.WithCancel(leading)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- srv.Serve(leading)
		stop()
	}()
	h.leads.Store(d)
	defer h.leads.Store(nil)
	logger(opt.Log).Info("norn leads", "cluster", opt.Name, "nodes", len(d.nodes.nodes), "policy", opt.Policy.String())
	err = d.Run(leading)
	stop()
	return errors.Join(err, <-served)
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
