package trace

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/perf"
)

// Speeds for formats that tell how much work a job has and not how long it
// takes. Each table names the measurements that it was made from; the figures
// are rounded or fitted, so run times made with them are called nominal. With
// Options.Profile the measurements themselves are used.

// knot is a point of a curve.
type knot struct{ x, y float64 }

// curve is linear between its knots and flat outside.
type curve []knot

func (c curve) at(x float64) float64 {
	for i := range c {
		if x > c[i].x {
			continue
		}
		if i == 0 || x == c[i].x {
			return c[i].y
		}
		a, b := c[i-1], c[i]
		return a.y + (b.y-a.y)*(x-a.x)/(b.x-a.x)
	}
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].y
}

// afsCurve is microseconds per iteration by number of GPUs, cut to whole ones
// as its source does.
type afsCurve curve

func (c afsCurve) at(n float64) float64 { return math.Floor(curve(c).at(n)) }

// afsIterations is the model table of the simulator of AFS (NSDI 2021) and PCS
// (OSDI 2024): measured at 1, 2 and multiples of 4 GPUs.
var afsIterations = map[string]afsCurve{
	"VggnetModel256":         {{1, 3020532}, {2, 1659208}, {4, 868694}, {8, 456675}},
	"GooglenetModel128":      {{1, 346970}, {2, 187140}, {4, 106182}, {8, 61929}, {12, 47692}, {16, 42424}, {20, 41039}},
	"Inception4Model256":     {{1, 5834222}, {2, 2988258}, {4, 1468610}, {8, 748649}, {12, 510674}, {16, 421657}, {20, 344953}, {24, 303976}, {28, 273867}, {32, 257504}, {36, 237342}, {40, 227508}, {44, 203455}, {48, 199246}, {52, 183125}},
	"Resnet50Model128":       {{1, 941170}, {2, 474975}, {4, 259920}, {8, 158287}, {12, 114529}, {16, 104129}, {20, 93466}, {24, 90556}, {28, 88089}},
	"DeepspeechModel64":      {{1, 619714}, {2, 415717}, {4, 356149}, {8, 339434}, {12, 333786}, {16, 316334}, {20, 309056}},
	"AutoencoderModel51200":  {{1, 17823579}, {2, 9131074}, {4, 4671065}, {8, 2262940}, {12, 1560150}, {16, 1110429}, {20, 823213}, {24, 744334}, {28, 669837}, {32, 576488}, {36, 474042}, {40, 418247}, {44, 415891}, {45, 415303}, {48, 405689}, {52, 354215}, {56, 341132}, {60, 326437}, {64, 296833}},
	"TransformerModel4096":   {{1, 39936031}, {2, 20050013}, {4, 9915959}, {8, 5010328}, {12, 3322359}, {16, 2489734}, {20, 2001489}, {24, 1681022}, {28, 1446014}, {32, 1269672}, {36, 1119196}, {40, 995758}, {44, 913531}, {48, 846589}, {52, 762260}, {56, 725532}, {60, 666628}, {64, 620395}},
	"TransformerModel256":    {{1, 2776298}, {2, 1466578}, {4, 808534}, {7, 521062}, {8, 425236}, {12, 365623}, {16, 281928}, {20, 239742}, {24, 229748}, {28, 225357}, {32, 213839}, {36, 212868}, {40, 201310}, {44, 195461}},
	"DcganModel256":          {{1, 282031}, {2, 155580}, {4, 89254}, {8, 60117}, {12, 55566}, {16, 47983}, {20, 44481}},
	"ChatbotModel256":        {{1, 114644}, {2, 80233}, {4, 66419}},
	"VideopredictionModel64": {{1, 1123488}, {2, 625106}, {4, 379974}, {8, 294777}, {12, 261078}, {16, 249234}, {20, 230291}, {24, 219267}, {28, 218602}},
}

// gavelV100 is steps per second on 1, 2, 4 and 8 V100 GPUs of one node, alone,
// of the simulation throughputs of Gavel (OSDI 2020), to three digits; 0 not
// measured.
var gavelV100 = map[string][4]float64{
	"A3C":                              {7.18, 0, 0, 0},
	"CycleGAN":                         {4.43, 0, 0, 0},
	"LM (batch size 10)":               {81.7, 163, 121, 615},
	"LM (batch size 20)":               {64.7, 132, 111, 497},
	"LM (batch size 40)":               {45.2, 91.6, 96.0, 359},
	"LM (batch size 5)":                {109, 186, 127, 699},
	"LM (batch size 80)":               {28.2, 58.1, 74.8, 231},
	"Recommendation (batch size 1024)": {13.3, 0, 0, 0},
	"Recommendation (batch size 2048)": {7.47, 0, 0, 0},
	"Recommendation (batch size 4096)": {3.91, 0, 0, 0},
	"Recommendation (batch size 512)":  {23.3, 0, 0, 0},
	"Recommendation (batch size 8192)": {2.84, 0, 0, 0},
	"ResNet-18 (batch size 128)":       {18.0, 24.0, 70.0, 162},
	"ResNet-18 (batch size 16)":        {32.4, 100, 124, 383},
	"ResNet-18 (batch size 256)":       {10.3, 15.9, 27.8, 81.5},
	"ResNet-18 (batch size 32)":        {29.9, 94.2, 115, 340},
	"ResNet-18 (batch size 64)":        {24.1, 74.1, 95.6, 256},
	"ResNet-50 (batch size 128)":       {2.50, 4.22, 7.03, 10.3},
	"ResNet-50 (batch size 16)":        {11.4, 13.9, 23.2, 27.8},
	"ResNet-50 (batch size 32)":        {7.79, 10.8, 13.8, 24.1},
	"ResNet-50 (batch size 64)":        {4.39, 7.92, 9.45, 17.3},
	"Transformer (batch size 128)":     {5.45, 10.1, 14.2, 30.9},
	"Transformer (batch size 16)":      {11.1, 14.2, 20.1, 71.7},
	"Transformer (batch size 256)":     {1.60, 2.89, 4.76, 9.72},
	"Transformer (batch size 32)":      {10.6, 13.3, 22.8, 64.0},
	"Transformer (batch size 64)":      {8.62, 15.9, 19.7, 49.7},
}

// gavelNominal is the nominal speed of a job type in steps per second. Beyond
// the measured numbers of GPUs it grows with their number.
func gavelNominal(jobType string, gpus int) (float64, bool) {
	return atGPUs(gavelV100[jobType], gpus)
}

// atGPUs is a speed that was measured on 1, 2, 4 and 8 GPUs, at any number of them; ok
// is false where nothing was measured.
func atGPUs(speeds [4]float64, gpus int) (speed float64, ok bool) {
	if gpus < 1 || speeds == [4]float64{} {
		return 0, false
	}
	best, at := speeds[0], 1
	for i, s := range speeds {
		if n := 1 << i; n <= gpus && s > 0 {
			best, at = s, n
		}
	}
	return best * float64(gpus) / float64(at), true
}

// polluxApp is a fit of an application of Pollux (OSDI 2021): step time and
// iterations until it has converged.
type polluxApp struct {
	base, sample float64 // seconds of a step on one GPU: base + sample x local batch size
	sync, nodes  float64 // seconds more with several GPUs, and more again on several nodes
	iterations   curve   // by global batch size
}

// polluxApps is fitted to the profiles published with Sia on nodes of four T4
// GPUs (least squares of the relative error; half of the placements are within
// 10%); iterations are the last of each validation profile.
var polluxApps = map[string]polluxApp{
	"bert":        {0.418, 0.0291, 0.039, 0.888, curve{{12, 14774}, {24, 7427}, {48, 3732}, {96, 1885}, {192, 940}, {384, 480}}},
	"cifar10":     {0.0244, 0.00059, 0.0097, 0.0712, curve{{128, 39062}, {256, 20377}, {512, 10615}, {1024, 5722}, {2048, 3178}, {4096, 2011}}},
	"deepspeech2": {0.240, 0.0229, 0.107, 0.288, curve{{20, 28536}, {40, 14711}, {80, 7683}, {160, 4041}, {320, 2264}, {640, 1423}}},
	"imagenet":    {0.107, 0.0034, 0.008, 0.139, curve{{200, 576525}, {400, 292995}, {800, 150231}, {1600, 78453}, {3200, 42123}, {6400, 23972}, {12800, 14461}}},
	"ncf":         {0.0071, 4.3e-7, 0.0039, 0.0135, curve{{256, 194174}, {512, 97094}, {1024, 48625}, {2048, 24308}, {4096, 12172}, {8192, 6122}, {16384, 3069}, {32768, 1548}}},
	"yolov3":      {0.201, 0.0230, 0.0954, 0.636, curve{{8, 103444}, {16, 52905}, {32, 27430}, {64, 14577}, {128, 8075}, {256, 4809}, {512, 3143}}},
}

// polluxNodeGPUs is the number of GPUs of a node of Pollux.
const polluxNodeGPUs = 4

// polluxNominal is the nominal number of iterations and the seconds of each.
func polluxNominal(app string, gpus, batch int) (iterations, step float64, ok bool) {
	a, ok := polluxApps[app]
	if !ok || gpus < 1 || batch < 1 {
		return 0, 0, false
	}
	step = a.base + a.sample*float64(batch)/float64(gpus)
	if gpus > 1 {
		step += a.sync
	}
	if gpus > polluxNodeGPUs {
		step += a.nodes
	}
	return iterationsAt(a.iterations, batch), step, true
}

// iterationsAt reads a curve of iterations by batch size in the logarithms of
// both; outside of it the number of samples stays the same.
func iterationsAt(c curve, batch int) float64 {
	b := float64(batch)
	logs := make(curve, len(c))
	for i, k := range c {
		logs[i] = knot{math.Log(k.x), math.Log(k.y)}
	}
	n := math.Exp(logs.at(math.Log(b)))
	if first, last := c[0].x, c[len(c)-1].x; b < first {
		n *= first / b
	} else if b > last {
		n *= last / b
	}
	return n
}

// synergyIterations is seconds per iteration of the models of Synergy (OSDI
// 2022) with three cores for each GPU, from its own model table.
var synergyIterations = map[string]float64{
	"alexnet": 0.6, "bert": 0.011, "deepspeech": 0.757, "gnmt": 0.12, "lstm": 0.011, "m5": 0.6,
	"mobilenet": 0.71, "res18": 0.64, "res50": 0.78, "shufflenet": 0.615, "transformer": 0.67, "vae": 0.011,
}

// arenaNominal is the nominal time of an iteration in seconds, by a fit to what was measured.
func arenaNominal(model, gpuType string, gpus, batch int) (float64, bool) {
	m, ok := perf.LargeModel(model)
	if !ok {
		return 0, false
	}
	return m.Iteration(gpuType, gpus, batch)
}

// onesTask is how long a task of ONES (SC 2021) trains and how fast.
type onesTask struct{ epochs, samplesPerSecond float64 }

// onesTasks is taken from the training history that is published with ONES,
// with the batch sizes that it ended with.
var onesTasks = map[string]onesTask{
	"bert/cola": {6, 102}, "bert/mrpc": {6, 102}, "bert/sst2": {5, 436},
	"resnet18/cifar": {25, 16000}, "vgg16/cifar": {36, 2800}, "googlenet/cifar": {23, 11000},
	"alexnet/imagenet": {69, 3400}, "resnet50/imagenet": {58, 1140}, "vgg16/imagenet": {44, 1970}, "inception_v3/imagenet": {52, 1600},
}

func sortCurve(c curve) {
	slices.SortFunc(c, func(a, b knot) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
}
