package testenv

// Option changes a control plane.
type Option func(*settings)

// settings are what the options of a control plane say.
type settings struct {
	audit         string // level of the audit log; empty: none
	gates         []string
	runtimeConfig []string
	apiServer     []string // further flags
	managed       bool     // a controller manager runs
	manager       []string
	scheduled     bool // a kube-scheduler runs
	scheduler     []string
}

// programs are the programs that the settings need.
func (s *settings) programs() []string {
	need := []string{etcd, apiServer}
	if s.managed {
		need = append(need, controllerManager)
	}
	if s.scheduled {
		need = append(need, scheduler)
	}
	return need
}

// Audit has the API server write down every write, at a level of audit policies: Metadata
// (who, what, when, and the answer's code), Request or RequestResponse. Env.AuditLog is
// the file.
func Audit(level string) Option {
	return func(s *settings) { s.audit = level }
}

// ControllerManager runs a controller manager with its defaults and these flags: Raised
// are some.
func ControllerManager(flags ...string) Option {
	return func(s *settings) { s.managed, s.manager = true, append(s.manager, flags...) }
}

// Raised are the flags of a controller manager that is fast: its defaults are 20 writes a
// second for each controller, and 5 Jobs at once.
func Raised() []string {
	return []string{"--kube-api-qps=5000", "--kube-api-burst=5000", "--concurrent-job-syncs=32", "--concurrent-gc-syncs=32"}
}

// KubeScheduler runs a kube-scheduler at a high pace, with further flags.
func KubeScheduler(flags ...string) Option {
	return func(s *settings) { s.scheduled, s.scheduler = true, append(s.scheduler, flags...) }
}

// FeatureGates sets gates of all programs, such as GenericWorkload=true.
func FeatureGates(gates ...string) Option {
	return func(s *settings) { s.gates = append(s.gates, gates...) }
}

// RuntimeConfig has the API server serve more or less of the API, such as
// scheduling.k8s.io/v1alpha2=true.
func RuntimeConfig(entries ...string) Option {
	return func(s *settings) { s.runtimeConfig = append(s.runtimeConfig, entries...) }
}

// APIServer gives further flags to the API server.
func APIServer(flags ...string) Option {
	return func(s *settings) { s.apiServer = append(s.apiServer, flags...) }
}
