// Takes from every operator of MXNet 1.x what it declares of working in place.
//
// The planner (src/nnvm/plan_memory.cc) asks these two attributes and has no switch of its own.
// Op::set_attr would compare type_info of two compilers, and refuses; what is registered already is
// changed where it stands.
#include <nnvm/op.h>
#include <nnvm/op_attr_types.h>

template <typename Option>
int empty(const char* attribute) {
  const nnvm::OpMap<Option>& options = nnvm::Op::GetAttr<Option>(attribute);
  int emptied = 0;
  for (const nnvm::Op* op : dmlc::Registry<nnvm::Op>::List()) {
    if (!options.contains(op)) continue;
    const_cast<Option&>(options[op]) = [](const nnvm::NodeAttrs&) {
      return typename Option::result_type();
    };
    ++emptied;
  }
  return emptied;
}

// How many operators had an option; each has none from here on.
extern "C" int netdyno_no_inplace() {
  const int emptied = empty<nnvm::FInplaceOption>("FInplaceOption");
  empty<nnvm::FInplaceIdentity>("FInplaceIdentity");
  return emptied;
}
