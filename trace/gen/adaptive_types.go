package gen

import "github.com/norn-scheduler/norn/perf"

// measured is how fast a model trains on a further GPU type, and how many examples a GPU of
// it takes in a pass.
type measured struct {
	model               string
	time                perf.StepTime
	localMin, localMost int
}

// adaptiveTypes are the further GPU types of Sia's clusters by their names there: RTX 2080
// Ti (rtx) and A100 of 40 GB (dgx-ext), 8 to a node, and Quadro RTX 6000 (quad), 4 to a node.
//
// Source: the profiles published with Sia (SOSP 2023), fitted by perf.Fit, 2 to 11 % off on
// average, yolov3 on A100 25 %.
var adaptiveTypes = map[string][]measured{
	"rtx": {
		{"resnet18", steps(0.03569, 0.0002587, 0.08478, 0.002145, 0.06447, 0.004525, 2.98), 32, 1024},
		{"neumf", steps(0.01425, 1.196e-07, 0.00941, 0.0005471, 0.006023, 0.0008642, 1), 32, 32768},
		{"deepspeech2", steps(0.3711, 0.01285, 0.1752, 0.02392, 0.1415, 0.03705, 1.658), 10, 80},
		{"bert", steps(0.1585, 0.02252, 0.5386, 0.03098, 0.3474, 0.06664, 1.903), 4, 12},
		{"yolov3", steps(0.3546, 0.01474, 0.3201, 0.008935, 0.2077, 0.01733, 1), 4, 8},
		{"resnet50", steps(0.1204, 0.001851, 0.1705, 0.008654, 0.09892, 0.02212, 2.118), 20, 200},
	},
	"dgx-ext": {
		{"resnet18", steps(0.02449, 8.714e-05, 0.01408, 0.0007983, 0.01341, 0.001428, 2.59), 32, 4096},
		{"neumf", steps(0.008092, 1.234e-07, 0.0009193, 0.0001434, 0.001024, 0.0002676, 1), 32, 32768},
		{"deepspeech2", steps(0.4307, 0.01354, 0.231, 0.01159, 0.1611, 0.01527, 1.877), 10, 320},
		{"bert", steps(0.09728, 0.004746, 0.03517, 0.003393, 0.03114, 0.005705, 1.576), 4, 48},
		{"yolov3", steps(0.3134, 0.0183, 0.06032, 0.01758, 0.09485, 0.01894, 1), 4, 32},
		{"resnet50", steps(0.09401, 0.0008458, 0.007774, 0.001154, 0.009685, 0.001166, 1), 20, 800},
	},
	"quad": {
		{"resnet18", steps(0.02672, 0.00025, 0.05119, 0.01008, 0.04654, 0.009161, 3.331), 32, 2048},
		{"neumf", steps(0.01168, 1.238e-07, 0.007539, 0.002734, 0.006854, 0.002485, 1.291), 32, 32768},
		{"deepspeech2", steps(0.1797, 0.01626, 0.3653, 0.03902, 0.3321, 0.03548, 3.129), 10, 160},
		{"bert", steps(0.1157, 0.02186, 0.3922, 0.07482, 0.3566, 0.06801, 2.387), 4, 24},
		{"yolov3", steps(0.167, 0.0118, 0.201, 0.123, 0.1828, 0.1118, 1.623), 4, 16},
		{"resnet50", steps(0.09695, 0.001885, 0.0895, 0.03588, 0.08136, 0.03262, 2.498), 20, 400},
	},
}

func steps(grad, gradEach, node, nodeEach, local, localEach, overlap float64) perf.StepTime {
	return perf.StepTime{Grad: grad, GradEach: gradEach, Node: node, NodeEach: nodeEach, Local: local, LocalEach: localEach, Overlap: overlap}
}

// on is what the model reaches on a further GPU type.
func (m *adaptive) on(of *measured) perf.Goodput {
	g := m.Goodput
	g.Time, g.Batches.LocalMin, g.Batches.LocalMost = of.time, of.localMin, of.localMost
	return g
}
